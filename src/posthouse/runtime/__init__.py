"""Runs the engine with a real clock, files and sockets: driver, loop, homes, settings, serve."""
