"""NCP requests and replies as bytes."""
