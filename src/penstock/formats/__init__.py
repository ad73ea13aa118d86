"""Layouts of bytes that more than one room reads or writes, each defined once."""
