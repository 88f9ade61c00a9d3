"""The calls of NCP: one handler for each."""
