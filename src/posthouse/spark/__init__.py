"""Queues as Spark tables and streams, and pipelines over them.

The public names are loaded when they are first used: importing this package needs no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posthouse.spark.java import JavaNotFound as JavaNotFound
    from posthouse.spark.lakes.archiving import archive as archive
    from posthouse.spark.lakes.compaction import compact as compact
    from posthouse.spark.lakes.erasure import Erased as Erased
    from posthouse.spark.lakes.erasure import erase as erase
    from posthouse.spark.lakes.table import lake as lake
    from posthouse.spark.last_batch import Settled as Settled
    from posthouse.spark.last_batch import settle as settle
    from posthouse.spark.pipelines import deadletters as deadletters
    from posthouse.spark.pipelines import latency as latency
    from posthouse.spark.pipelines import run as run
    from posthouse.spark.pipelines import sql as sql
    from posthouse.spark.pipelines import traffic as traffic
    from posthouse.spark.queries.decoding import register_functions as register_functions
    from posthouse.spark.replay_map import ReplayMessage as ReplayMessage
    from posthouse.spark.replay_map import load_function as load_function
    from posthouse.spark.replaying import replay as replay
    from posthouse.spark.sessions import SparkMissing as SparkMissing
    from posthouse.spark.sessions import session as session
    from posthouse.spark.views import register_views as register_views
    from posthouse.spark.views import table as table

_PLACES = {
    "JavaNotFound": "posthouse.spark.java",
    "SparkMissing": "posthouse.spark.sessions",
    "session": "posthouse.spark.sessions",
    "Settled": "posthouse.spark.last_batch",
    "settle": "posthouse.spark.last_batch",
    "archive": "posthouse.spark.lakes.archiving",
    "compact": "posthouse.spark.lakes.compaction",
    "lake": "posthouse.spark.lakes.table",
    "Erased": "posthouse.spark.lakes.erasure",
    "erase": "posthouse.spark.lakes.erasure",
    "ReplayMessage": "posthouse.spark.replay_map",
    "load_function": "posthouse.spark.replay_map",
    "replay": "posthouse.spark.replaying",
    "deadletters": "posthouse.spark.pipelines",
    "latency": "posthouse.spark.pipelines",
    "run": "posthouse.spark.pipelines",
    "sql": "posthouse.spark.pipelines",
    "traffic": "posthouse.spark.pipelines",
    "table": "posthouse.spark.views",
    "register_views": "posthouse.spark.views",
    "register_functions": "posthouse.spark.queries.decoding",
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
