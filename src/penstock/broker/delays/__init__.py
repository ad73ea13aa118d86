"""Messages that wait in delayed exchanges until they are due."""
