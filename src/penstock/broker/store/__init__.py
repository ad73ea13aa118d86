"""The message store: what the broker keeps across restarts, as records in the journal."""
