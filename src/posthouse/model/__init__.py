"""Values that every layer shares: names, messages, properties, errors. Imports no other package."""
