"""Messages that an operator moves or copies from one queue to another."""
