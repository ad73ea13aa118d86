"""The HTTP server: health, metrics, bulk reads of streams, AMQP over WebSocket."""
