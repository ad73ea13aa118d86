"""The real world: the implementations of the abstract classes of `penstock.world` on this
machine.
"""
