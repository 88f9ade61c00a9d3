"""The bindery: objects, properties, rights, stations."""
