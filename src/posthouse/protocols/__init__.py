"""The doors: each protocol in its own package, none imports another."""
