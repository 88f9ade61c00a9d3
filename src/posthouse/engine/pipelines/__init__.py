"""Named groups that read queues in batches, and staged writes."""
