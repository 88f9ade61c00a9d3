"""Reads of a connector: messages stay locked until their outcome is reported."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from posthouse.client.core import SessionCore
from posthouse.client.message import Message
from posthouse.client.operations import Operation
from posthouse.client.requests import EndRequest, QueueHandle, ReadRequest
from posthouse.connector.deliveries import Parcel
from posthouse.wire.frames import frames


class Batch(NamedTuple):
    """Messages that are ours, and the connection that has them locked."""

    parcels: list[Parcel]
    locked_in: int


class Held(NamedTuple):
    """Messages that nothing was said of, and that no other reader gets yet."""

    lookup_ids: list[int]
    locked_in: int


def take(
    core: SessionCore, handle: QueueHandle, count: int, timeout: float | None
) -> Operation[Batch]:
    """Up to this many messages, waiting for the first; raises IoTimeout when none comes."""
    request = ReadRequest(frames.RECEIVE, handle, timeout, count, core.clock)
    core.submit(request)
    yield request
    name = handle.name
    parcels = [Parcel(Message(one, name)) for one in request.result()]
    return Batch(parcels, request.generation)


def settle(core: SessionCore, handle: QueueHandle, batch: Batch) -> Operation[None]:
    """Ends what was spoken of, in order, durably; the rest goes back. Raises MessageReturned."""
    rest = yield from end(core, handle, batch)
    yield from give_back(core, handle, [rest])


def end(core: SessionCore, handle: QueueHandle, batch: Batch) -> Operation[Held]:
    """Ends what was spoken of, in order, durably; the rest stays ours. Raises MessageReturned."""
    for request in _ends(handle, batch):
        core.submit(request)
        yield request
        request.result()
    rest = [one.message.lookup_id for one in batch.parcels if not one.said]
    return Held(rest, batch.locked_in)


def give_back(core: SessionCore, handle: QueueHandle, held: Iterable[Held]) -> Operation[None]:
    """What is held is anybody's again, in its old place."""
    for some in held:
        if some.lookup_ids:
            yield core.give_back(handle, some.lookup_ids, some.locked_in)


def _ends(handle: QueueHandle, batch: Batch) -> Iterable[EndRequest]:
    spoken = [parcel for parcel in batch.parcels if parcel.said]
    for said, some in groupby(spoken, lambda parcel: parcel.said):
        lookup_ids = [parcel.message.lookup_id for parcel in some]
        yield EndRequest(handle, lookup_ids, batch.locked_in, message_class=said)
