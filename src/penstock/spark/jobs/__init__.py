"""The broker's own jobs on Spark: audit, flow, capacity, archive, replay."""
