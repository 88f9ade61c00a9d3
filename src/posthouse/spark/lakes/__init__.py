"""The lake: a Delta table of messages; archive, compaction, erasure."""
