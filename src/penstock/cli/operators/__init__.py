"""The operators' commands: one module per command, over the HTTP API of a running broker."""
