"""The content of a `pipeline` job: a pipeline of `posthouse.spark` and its arguments, as JSON.

A job names queues and lakes, never folders: which lakes there are is the server's own knowledge.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

ORDER_MAX: Final = 1 << 20  # bytes

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Names = Annotated[list[Name], Meta(max_length=1000)]
LakeName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Moment = Annotated[str, Meta(min_length=10, max_length=32)]


class Order(msgspec.Struct, forbid_unknown_fields=True, tag_field="pipeline", kw_only=True):
    """What all of them have in common."""


class ArchiveOrder(Order, tag="archive", kw_only=True):
    """Queues into a lake; `consume` receives what the lake has."""

    queues: Annotated[list[Name], Meta(min_length=1, max_length=1000)]
    lake: LakeName = "lake"
    consume: bool = False
    journals: bool = False


class ReplayOrder(Order, tag="replay", kw_only=True):
    """From a lake back to queues."""

    lake: LakeName = "lake"
    to: Name | None = None
    mapping: dict[Name, Name] = {}
    since: Moment | None = None
    until: Moment | None = None
    where: Annotated[str, Meta(max_length=10_000)] | None = None
    dry_run: bool = False


class DeadLettersOrder(Order, tag="deadletters", kw_only=True):
    """Dead letters by reason, in tables and a page."""

    queues: Names = []


class LatencyOrder(Order, tag="latency", kw_only=True):
    """Times by route and hour, in tables and a page."""

    queues: Names = []


class SqlOrder(Order, tag="sql", kw_only=True):
    """One SELECT, as in a job of type `sql`."""

    statement: Annotated[str, Meta(min_length=1, max_length=ORDER_MAX)]
    lake: LakeName | None = None


AnyOrder = ArchiveOrder | ReplayOrder | DeadLettersOrder | LatencyOrder | SqlOrder


def read_order(data: bytes) -> AnyOrder:
    """The order in a file; raises `ValueError` with what is wrong."""
    try:
        order: AnyOrder = msgspec.json.decode(data, type=AnyOrder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return order
