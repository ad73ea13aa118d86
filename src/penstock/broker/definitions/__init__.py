"""Definitions in RabbitMQ's JSON form: import and export of a broker's users, policies and topology."""
