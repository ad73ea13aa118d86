"""What `penstock load` is made of: faucets, sinks, and the books that prove nothing was lost."""
