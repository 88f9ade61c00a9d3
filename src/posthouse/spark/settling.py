"""Settles a stream that has ended: acknowledges its last batch, which Spark never does.

Spark tells a source that a batch is committed when it plans the next one; the last batch of a run
has no next one.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from posthouse.model.errors import InvalidParameter, QueueNotFound, SharingViolation
from posthouse.spark.checkpoints import committed_offsets
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.leases import ACKNOWLEDGE_S, committed_through, end_lease
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
    group = endpoint.groups(queue).get(offset.group)
    if group is None:
        raise QueueNotFound(
            f"{queue} has no group {offset.group}", "Nothing is claimed then; nothing is lost."
        )
    reachable = committed_through(group, through)
    answer = group if reachable is None else _acknowledge(endpoint, offset, queue, reachable)
    epoch = offset.epochs.get(queue)
    if epoch is not None and group["leased"] and epoch == group["epoch"]:
        end_lease(endpoint, queue, offset.group, epoch, group["owner"])
    return Settled(queue, offset.group, int(answer["position"]), int(answer.get("received", 0)))


def _acknowledge(
    endpoint: Endpoint, offset: StreamOffset, queue: str, through: int
) -> dict[str, Any]:
    """As the reader that planned the batch, or, where another came after it, as nobody."""
    body = {"through": through}
    if epoch := offset.epochs.get(queue):
        try:
            return endpoint.group_call(queue, offset.group, "acknowledge", epoch=epoch, **body)
        except SharingViolation:
            pass
    return endpoint.group_call(queue, offset.group, "acknowledge", epoch=None, **body)
