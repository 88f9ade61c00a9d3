"""Reports: dead letters, latencies, flows, as tables and pages."""
