"""Statements that need no Spark: parsed here, written again for DuckDB, answered from Arrow."""
