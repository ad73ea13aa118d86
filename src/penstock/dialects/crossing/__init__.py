"""How a message of one dialect is expressed in the other; `translate` puts the pieces together."""
