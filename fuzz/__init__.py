"""Fuzz targets, run by `make fuzz`, and what they share."""
