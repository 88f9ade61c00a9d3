"""The `posthouse` program: a module or package for each noun, over the client."""
