"""Transactions: local ones, and those that several queue managers share."""
