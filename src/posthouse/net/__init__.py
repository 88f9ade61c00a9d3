"""TCP for every door: listening, counting connections, names and addresses."""
