"""Queues as Spark tables and streams, and pipelines over them.

The public names are loaded when they are first used: importing this package needs no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posthouse.spark.java import JavaNotFound as JavaNotFound
    from posthouse.spark.session import SparkMissing as SparkMissing
    from posthouse.spark.session import session as session

_PLACES = {
    "JavaNotFound": "posthouse.spark.java",
    "SparkMissing": "posthouse.spark.session",
    "session": "posthouse.spark.session",
}
__all__ = [*_PLACES]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'posthouse.spark' has no attribute {name!r}")
    value: object = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
