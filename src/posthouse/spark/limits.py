"""How much one micro-batch takes, and how several queues share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from posthouse.spark.options import SourceOptions


class Limits(NamedTuple):
    """At most this many messages and bytes; None means unlimited."""

    messages: int | None = None
    bytes: int | None = None


def default_limit(options: SourceOptions) -> ReadLimit:
    """The limit for Spark, which supports one at a time; the source applies the other one."""
    if options.max_messages is not None:
        return ReadMaxRows(options.max_messages)
    if options.max_bytes is not None:
        return ReadMaxBytes(options.max_bytes)
    return ReadAllAvailable()


def limits_of(limit: ReadLimit, options: SourceOptions) -> Limits:
    """What Spark wants, with the second limit of the options."""
    if isinstance(limit, ReadMaxRows):
        return Limits(limit.max_rows, options.max_bytes)
    if isinstance(limit, ReadMaxBytes):
        return Limits(None, limit.max_bytes)
    return Limits()


def shares(limit: int, sizes: Mapping[str, int], turn: int) -> dict[str, int]:
    """A limit shared out by size; everybody gets one as far as it goes round.

    `turn` states who is the first to get something, so that none is always the last.
    """
    waiting = [name for name, size in sizes.items() if size]
    if sum(sizes.values()) <= limit:
        return {name: sizes[name] for name in waiting}
    if not waiting:
        return {}
    first = turn % len(waiting)
    order = (waiting[first:] + waiting[:first])[:limit]
    total = sum(sizes[name] for name in order)
    spare = limit - len(order)
    given = {name: 1 + min(spare * sizes[name] // total, sizes[name] - 1) for name in order}
    left = limit - sum(given.values())
    for name in order:
        more = min(left, sizes[name] - given[name])
        given[name] += more
        left -= more
    return given
