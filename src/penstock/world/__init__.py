"""What a node asks of the outside: clock, disk, network, entropy. Abstract classes, no code.

`server/` implements them over the real machine, `simulation/` over a seeded, faulty one.
"""
