"""Settles a stream that has ended: acknowledges its last batch, which Spark never does.

Spark reports a batch as committed when it plans the next one; the last batch of a run has no next
one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from posthouse.client.arrow_read import PlannedQueue
from posthouse.client.groups import GroupReader, GroupState
from posthouse.model.errors import InvalidParameter, QueueNotFound, SharingViolation
from posthouse.spark.checkpoints import (
    committed_offsets,
    require_checkpoint,
    sync_checkpoint,
)
from posthouse.spark.data_loss import DataLoss, not_the_same
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.leases import ACKNOWLEDGE_S, claimed_through
from posthouse.spark.moved_positions import alone, name_of, under_names
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import Manager, managers, texts


class Settled(NamedTuple):
    """A queue whose group stands where the checkpoint does, and what was received for that."""

    queue: str
    group: str
    position: int
    received: int


def settle(
    path: str | os.PathLike[str],
    url: str | None = None,
    token_file: str | None = None,
    ca_file: str | None = None,
) -> list[Settled]:
    """Acknowledges what the stream with this checkpoint has committed. Can be repeated.

    The checkpoint has the addresses of its queue managers; `url` is for those that have moved, or
    that have a token each: url and token files are lists like the options of the stream. Streams
    without a group have nothing to settle.
    """
    done = []
    require_checkpoint(os.fspath(path))
    sync_checkpoint(os.fspath(path), "commits")
    for offset in committed_offsets(os.fspath(path)):
        if offset.group:
            done += _settle(offset, given_managers(offset, url, token_file, ca_file))
    return done


def given_managers(
    offset: StreamOffset, url: str | None, token_file: str | None, ca_file: str | None
) -> tuple[Manager, ...]:
    """Return the queue managers of a checkpoint: those that are named, else those that it has."""
    files = texts(token_file) if token_file else ()
    if url is None and len(files) > 1:
        raise InvalidParameter(
            "there are several token files", "Name the urls too, in the same order."
        )
    urls = texts(url) if url else tuple(dict.fromkeys(offset.urls.values()))
    values = {"url": urls, "tokenFile": files, "caFile": ca_file, "timeout": ACKNOWLEDGE_S}
    return managers(values) if urls else ()


def _settle(offset: StreamOffset, given: Sequence[Manager]) -> list[Settled]:
    done = []
    for queue, through in offset.queues.items():
        endpoint = queue_endpoint(queue, offset, given)
        try:
            now, name = with_its_name(offset, queue, endpoint)
            done.append(_settle_queue(endpoint, now, name, through))
        finally:
            endpoint.close()
    return done


def queue_endpoint(queue: str, offset: StreamOffset, given: Sequence[Manager]) -> Endpoint:
    """Where the queue is: as the checkpoint has it, else at the queue manager of that name, or the
    one with its GUID, which may have another name now."""
    machine = queue.partition("\\")[0]
    guid = offset.managers.get(machine, "").lower()
    known = [manager for manager in given if manager.url == offset.urls.get(machine)]
    for manager in known or given:
        endpoint = Endpoint(manager)
        named = endpoint.name.casefold() == machine.casefold() and guid in ("", endpoint.guid)
        if known or named or endpoint.guid == guid:
            return endpoint
        endpoint.close()
    raise InvalidParameter(f"no url leads to the queue manager of {queue}", "Name its url.")


def with_its_name(offset: StreamOffset, queue: str, endpoint: Endpoint) -> tuple[StreamOffset, str]:
    """Return the offset and the name of a queue as its queue manager is called now."""
    endpoint.ask_name()
    names = [(endpoint.guid, endpoint.name)]
    offset = alone(offset, queue)
    return under_names(offset, names), name_of(queue, offset, names)


def _settle_queue(endpoint: Endpoint, offset: StreamOffset, queue: str, through: int) -> Settled:
    state = endpoint.find_group(queue, offset.group)
    if state is None:
        raise QueueNotFound(
            f"{queue} has no group {offset.group}", "Nothing is claimed then; nothing is lost."
        )
    check_identity(endpoint, offset, queue, through)
    group, epoch = endpoint.group(queue, offset.group), offset.epochs.get(queue)
    reachable, received = claimed_through(state, offset.stream, through), 0
    if reachable is None and state.claim_after < min(through, state.claimed):
        reachable = min(through, state.claimed)  # another stream's: refused, with what frees it
    if reachable is not None:
        state, received = _acknowledge(group, epoch, reachable, offset.stream)
    if epoch is not None and state.leased and state.epoch == epoch:
        group.end(state.mode, state.owner, epoch)
    return Settled(queue, offset.group, state.position, received)


def check_identity(endpoint: Endpoint, offset: StreamOffset, queue: str, through: int) -> None:
    """Refuses ids that mean something else where they are to be acknowledged."""
    (plan,) = endpoint.plan([PlannedQueue(queue, through, identity=offset.identity(queue))])
    if plan.loss:
        raise DataLoss(
            not_the_same(queue, through, plan.loss),
            "Nothing was acknowledged: the messages that are there now were not read by this "
            "stream. Start it again, with failOnDataLoss=false or another checkpoint.",
        )


def _acknowledge(
    group: GroupReader, epoch: int | None, through: int, stream: str
) -> tuple[GroupState, int]:
    """Acknowledges with the lease of the reader that planned the batch, or, if another reader
    has taken over, without one.
    """
    if epoch is not None:
        with suppress(SharingViolation):
            return group.acknowledge(epoch, through, stream)
    return group.acknowledge(None, through, stream)
