"""Members, election of the root, and the record of the in-sync set. Knows nothing of messages."""
