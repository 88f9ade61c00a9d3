"""The directory as the engine uses it: public queues, the mirror, connectors."""
