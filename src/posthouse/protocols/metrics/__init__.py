"""The metrics for Prometheus, from figures that each protocol gives."""
