"""The shared state of the engine: messages, their order, their records, and effects of a turn."""
