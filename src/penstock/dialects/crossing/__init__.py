"""How a message of one dialect is said in the other; `translate` puts the pieces together."""
