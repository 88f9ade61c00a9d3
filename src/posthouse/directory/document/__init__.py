"""The directory as one document that people read, keep and exchange."""
