"""The bench: this broker and RabbitMQ under the same load in one interleaved run.

It is separate from the product: brokers are started as processes and used over the AMQP 0-9-1 wire
only. Two places import `penstock`, both named for it: `codec_of_penstock.py`, for the codec itself,
and `footprint.py`, which times the in-process broker in an interpreter of its own.
"""
