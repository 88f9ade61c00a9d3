"""Bodies held against a schema: what does not fit is quarantined, what drifts is reported."""
