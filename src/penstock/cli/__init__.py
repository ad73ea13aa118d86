"""The command line. May import every room; nothing imports it."""
