"""What `penstock demo` is made of: a broker that is killed, clients that outlive it, a verdict."""
