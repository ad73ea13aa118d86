"""The protocol of a cluster over a toy state: many seeds in little time."""
