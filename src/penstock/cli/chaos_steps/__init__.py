"""The parts of `penstock chaos`."""
