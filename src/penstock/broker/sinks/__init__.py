"""Sinks: batches that are published entirely and once, however often a client retries them."""
