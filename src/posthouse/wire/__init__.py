"""Bytes to values and back: the only package that has the layout of packets."""
