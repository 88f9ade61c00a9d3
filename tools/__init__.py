"""What developers run: conformance table, mutants, fuzzing, peers."""
