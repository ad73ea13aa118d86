"""The parts of `penstock demo`: a broker that is killed, clients that survive it, a verdict."""
