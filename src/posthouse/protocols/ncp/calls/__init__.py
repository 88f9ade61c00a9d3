"""The calls of NCP that are not one method of the engine: one handler for each."""
