"""AMQP 0-9-1 with RabbitMQ's extensions, sans-IO, both roles.

`connection` is the state machine, `listener` its callbacks, `methods_generated` its methods,
`field_table` and `content` their values, `errors` the faults.
"""
