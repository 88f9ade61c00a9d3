"""Connections to a directory server: where it is, who we are there, what we change."""
