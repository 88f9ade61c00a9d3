"""The frames of client sessions as bytes."""
