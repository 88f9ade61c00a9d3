"""The network protocols: each in its own package, none imports another."""
