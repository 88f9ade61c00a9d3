"""Users, their logins, tokens and certificates."""
