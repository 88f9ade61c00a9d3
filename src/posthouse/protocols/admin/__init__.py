"""The admin endpoint and the control socket: client sessions, JSON API, metrics."""
