"""The log on disk: append, sync, recover, compact, read."""
