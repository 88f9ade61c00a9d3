"""TCP for every protocol: listening, limits on connections, names and addresses."""
