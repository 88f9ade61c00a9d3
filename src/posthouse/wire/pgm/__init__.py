"""PGM packets as bytes (RFC 3208)."""
