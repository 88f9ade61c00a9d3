"""NCP as a client: one connection, and the calls on it."""
