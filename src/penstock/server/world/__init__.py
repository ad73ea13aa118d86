"""The real world: what the abstract classes of `penstock.world` are on this machine."""
