"""What is true: messages, their order and their records, and what the log is asked to keep."""
