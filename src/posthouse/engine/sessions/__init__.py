"""What client sessions ask of the engine, and what is kept to resume them."""
