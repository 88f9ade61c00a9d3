"""Values that every layer shares: names, messages, properties, error codes. Imports nothing of ours."""
