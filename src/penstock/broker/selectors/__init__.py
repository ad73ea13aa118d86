"""Selectors: conditions in the SQL-92 subset of JMS, asked of messages."""
