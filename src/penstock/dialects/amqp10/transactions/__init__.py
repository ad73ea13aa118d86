"""Transactions of AMQP 1.0: the work that takes effect together when the coordinator discharges them."""
