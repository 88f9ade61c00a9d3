"""All of `posthouse.toml`: the sections put together, read from the file, printed as a page."""
