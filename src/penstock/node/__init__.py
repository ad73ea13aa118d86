"""One server's worth of everything below, wired, still without any input or output of its own."""
