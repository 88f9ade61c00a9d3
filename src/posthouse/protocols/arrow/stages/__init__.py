"""Record batches that come in as the messages of a stage."""
