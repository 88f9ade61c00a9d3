"""How a running queue manager follows the authority of its directory."""
