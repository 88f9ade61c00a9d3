"""Encoders and decoders: the only package with the byte layout of packets."""
