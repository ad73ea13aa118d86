"""The only room with an event loop: sockets, files, threads, signals, the real clock."""
