"""The lake: files, manifest, archive, compaction."""
