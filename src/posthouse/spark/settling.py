"""Settles a stream that has ended: acknowledges its last batch, which Spark never does.

Spark tells a source that a batch is committed when it plans the next one; the last batch of a run
has no next one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from posthouse.client.groups import GroupReader, GroupState
from posthouse.model.errors import InvalidParameter, QueueNotFound, SharingViolation
from posthouse.spark.checkpoints import committed_offsets
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.leases import ACKNOWLEDGE_S, committed_through
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import TOKEN_FILE_VARIABLE, Manager


class Settled(NamedTuple):
    """A queue whose group stands where the checkpoint does, and what was received for that."""

    queue: str
    group: str
    position: int
    received: int


def settle(
    path: str | os.PathLike[str], url: str | None = None, token_file: str | None = None
) -> list[Settled]:
    """Acknowledges what the stream with this checkpoint has committed. Can be repeated.

    The checkpoint knows where its queue managers are; `url` is for one that has moved. Streams
    without a group have nothing to settle.
    """
    done = []
    for offset in committed_offsets(os.fspath(path)):
        if offset.group:
            done += _settle(offset, url, token_file)
    return done


def _settle(offset: StreamOffset, url: str | None, token_file: str | None) -> list[Settled]:
    token_file = token_file or os.environ.get(TOKEN_FILE_VARIABLE)
    done = []
    for queue, through in offset.queues.items():
        address = url or offset.urls.get(queue.partition("\\")[0])
        if address is None:
            raise InvalidParameter(
                f"the checkpoint does not say where {queue} is", "Name its queue manager's url."
            )
        endpoint = Endpoint(Manager(address, token_file, None, ACKNOWLEDGE_S))
        try:
            done.append(_settle_queue(endpoint, offset, queue, through))
        finally:
            endpoint.close()
    return done


def _settle_queue(endpoint: Endpoint, offset: StreamOffset, queue: str, through: int) -> Settled:
    state = endpoint.find_group(queue, offset.group)
    if state is None:
        raise QueueNotFound(
            f"{queue} has no group {offset.group}", "Nothing is claimed then; nothing is lost."
        )
    group, epoch = endpoint.group(queue, offset.group), offset.epochs.get(queue)
    reachable, received = committed_through(state, through), 0
    if reachable is not None:
        state, received = _acknowledge(group, epoch, reachable)
    if epoch is not None and state.leased and state.epoch == epoch:
        group.end(state.mode, state.owner, epoch)
    return Settled(queue, offset.group, state.position, received)


def _acknowledge(group: GroupReader, epoch: int | None, through: int) -> tuple[GroupState, int]:
    """As the reader that planned the batch, or, where another came after it, as nobody."""
    if epoch is not None:
        with suppress(SharingViolation):
            return group.acknowledge(epoch, through)
    return group.acknowledge(None, through)
