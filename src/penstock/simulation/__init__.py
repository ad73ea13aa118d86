"""The other world: seeded, faulty, fast. Runs real nodes and sans-IO clients in virtual time."""
