"""Values that every layer shares: names, messages, properties, errors. Imports nothing of ours."""
