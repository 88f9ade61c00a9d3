"""`posthouse pipeline`: queues into a lake and back, reports, SQL."""
