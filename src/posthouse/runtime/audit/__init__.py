"""The audit log: what operators did, in files of its own."""
