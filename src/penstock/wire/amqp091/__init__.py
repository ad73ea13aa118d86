"""AMQP 0-9-1 with RabbitMQ's extensions, sans-IO, both roles.

`connection` is the machine, `listener` what it tells, `methods_generated` its words,
`field_table` and `content` what is inside them, `errors` what may go wrong.
"""
