"""XML of senders: read within limits, its names and its values."""
