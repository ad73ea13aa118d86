"""AMQP 1.0, sans-IO, both roles.

`connection` is the machine, `listener` what it tells, `session` and `link` its endpoints,
`performatives_generated` its words, `decoding` and `encoding` what is inside them.
"""
