"""Posthouse: a message queue manager for Linux that speaks MSMQ on the wire."""

__version__ = "0.1.0"
