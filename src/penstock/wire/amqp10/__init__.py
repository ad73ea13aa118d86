"""AMQP 1.0, sans-IO, both roles.

`connection` is the state machine, `listener` its callbacks, `session` and `link` its endpoints,
`performatives_generated` its performatives, `decoding` and `encoding` their values.
"""
