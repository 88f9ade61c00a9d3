"""The queue manager itself: its name, its health, its damaged records."""
