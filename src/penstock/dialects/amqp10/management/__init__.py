"""Declaring, binding and deleting over AMQP 1.0, as RabbitMQ 4 does it: HTTP in messages.

A request names a method in `subject` and a location in `to`; the response has the status in
`subject` and the request's message-id as its correlation-id. `answering.answer` is the way in.
"""
