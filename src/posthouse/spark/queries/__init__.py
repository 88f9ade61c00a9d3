"""Read-only SQL over queues and lake, and what it may not call."""
