"""Rows of Spark made of messages, and messages made of rows."""
