"""One server: wires the rooms below together, still without any input or output of its own."""
