"""Where the pure parts meet clock, files and sockets: driver, loop, homes, settings, serve."""
