"""The simulated world: seeded, with faults, and fast. Runs real nodes and sans-IO clients in
virtual time.
"""
