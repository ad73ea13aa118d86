"""The parts of `penstock load`: faucets, sinks, and the records that prove that nothing was
lost.
"""
