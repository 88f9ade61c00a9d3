"""Lets Spark find `format("posthouse")`.

Spark imports every top-level package `pyspark_*` when it first looks for a Python data source, also
for users of other sources: nothing is loaded here before it is asked for, and nothing raises.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        try:
            from posthouse.spark.source import PosthouseSource
        except Exception as error:  # whatever it is, other people's sources must be found
            raise AttributeError(f"the format posthouse cannot be loaded: {error}") from error
        return PosthouseSource
    raise AttributeError(f"module 'pyspark_posthouse' has no attribute {name!r}")
