"""Traces of messages for OpenTelemetry: spans collected on the loop, sent from a thread."""
