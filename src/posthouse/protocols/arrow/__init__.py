"""Messages as Arrow record batches, read and staged."""
