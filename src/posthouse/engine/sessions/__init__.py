"""Engine calls of client sessions, and results kept to resume a session."""
