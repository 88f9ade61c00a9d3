"""What a stream's checkpoint has, and how its positions get to another group or another name.

For operators, while the stream is stopped: `posthouse pipeline checkpoint show|move|rebase`. Must
stay true: a checkpoint is changed only where all its batches are done, and a group is placed only
where the lookup ids of the checkpoint mean what they meant.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, NamedTuple

from posthouse.client.groups import GroupReader
from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.model.group_names import check_name
from posthouse.spark.checkpoints import (
    change_entry,
    committed_offsets,
    last_committed,
    last_planned,
    local_folder,
    require_checkpoint,
)
from posthouse.spark.lakes.disk import locked
from posthouse.spark.last_batch import (
    check_identity,
    given_managers,
    queue_endpoint,
    with_its_name,
)
from posthouse.spark.leases import CONSUME
from posthouse.spark.moved_positions import renamed
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.options import Manager
from posthouse.spark.reader_names import reader_name

STREAM_RUNS: Final = "an archive with this checkpoint runs"


class QueuePosition(NamedTuple):
    """How far a stream has read a queue, by the last batch that is done."""

    queue: str
    position: int
    group: str  # empty: the stream has none
    url: str
    guid: str  # of the queue manager; empty in checkpoints of version 0.1
    stream: str


class CheckpointContent(NamedTuple):
    """The batches and positions of a checkpoint."""

    committed: int  # number of the last batch that is done; -1: none
    planned: int  # of the last one that was begun
    positions: tuple[QueuePosition, ...]


class Rebased(NamedTuple):
    """Where a group of a queue is now."""

    queue: str
    group: str
    position: int
    before: int | None  # None: there was no such group


def checkpoint_content(path: str | os.PathLike[str]) -> CheckpointContent:
    """Return what a checkpoint has; nothing is changed, and no queue manager is asked."""
    root = os.fspath(path)
    require_checkpoint(root)
    positions = [one for offset in committed_offsets(root) for one in _positions(offset)]
    folder = local_folder(root)
    return CheckpointContent(last_committed(folder), last_planned(folder), tuple(positions))


def _positions(offset: StreamOffset) -> Iterator[QueuePosition]:
    for queue, position in offset.queues.items():
        machine = queue.partition("\\")[0]
        url, guid = offset.urls.get(machine, ""), offset.managers.get(machine, "")
        yield QueuePosition(queue, position, offset.group, url, guid, offset.stream)


def move_checkpoint(path: str | os.PathLike[str], old: str, new: str) -> CheckpointContent:
    """Give the queues of a computer another name in a checkpoint.

    A stream does so itself where it has the GUID of the renamed queue manager. Checkpoints of
    version 0.1 have none.
    """
    root = os.fspath(path)
    with _at_rest(root):
        names = {one.queue.partition("\\")[0] for one in checkpoint_content(root).positions}
        if old not in names:
            raise InvalidParameter(
                f"{root} has no queue of {old}",
                f"Its computers are {', '.join(sorted(names))}." if names else "",
            )
        if new in names:
            raise InvalidParameter(
                f"{root} has queues of {new}, too", "Give those another name before."
            )
        change_entry(root, lambda offset: renamed(offset, {old: new}))
        return checkpoint_content(root)


@contextmanager
def _at_rest(root: str) -> Iterator[None]:
    """Refuses a checkpoint that is in use, as far as that shows, or has an open batch."""
    require_checkpoint(root)
    folder = local_folder(root)
    lock = folder.with_name(f"{folder.name}.lock")  # of an archive
    with locked(lock, STREAM_RUNS, wait_s=0.0) if lock.exists() else nullcontext():
        planned, committed = last_planned(folder), last_committed(folder)
        if planned > committed:
            raise InvalidParameter(
                f"batch {planned} of {root} was begun and is not done",
                "Start the stream with its old options until the batch is done; then stop it.",
            )
        yield


def rebase_checkpoint(
    path: str | os.PathLike[str],
    group: str,
    url: str | None = None,
    token_file: str | None = None,
    ca_file: str | None = None,
    *,
    dry_run: bool = False,
) -> list[Rebased]:
    """Place a group where a checkpoint is, so that the stream goes on with it, consuming or not.

    What the stream has read before stays in its queues. A group with a reader or with claims is
    refused, one that is further than the checkpoint, and one that another stream has read with.
    `url` is for queue managers that have moved, or that have a token each.
    """
    check_name(group)
    root = os.fspath(path)
    require_checkpoint(root)
    offsets = committed_offsets(root)
    if not offsets:
        raise InvalidParameter(
            f"{root} has no batch that is done", "Start the stream: it has nothing to carry over."
        )
    placed = [
        _Placed(offset, queue, group, given_managers(offset, url, token_file, ca_file))
        for offset in offsets
        for queue in offset.queues
    ]
    try:
        for one in placed:
            one.check()
        return [one.done(dry_run=dry_run) for one in placed]
    finally:
        for one in placed:
            one.endpoint.close()


class _Placed:
    """A group of one queue, checked before any group is changed."""

    def __init__(
        self, offset: StreamOffset, queue: str, group: str, given: Sequence[Manager]
    ) -> None:
        self.endpoint = queue_endpoint(queue, offset, given)
        self.offset, self.queue = with_its_name(offset, queue, self.endpoint)
        self.position = self.offset.queues[self.queue]
        self.group = group
        self.state = self.endpoint.find_group(self.queue, group)

    def check(self) -> None:
        check_identity(self.endpoint, self.offset, self.queue, self.position)
        if self.state is None:
            return
        if self.state.leased or self.state.claimed > self.state.position:
            what = "a reader at work" if self.state.leased else "claims"
            raise SharingViolation(
                f"the group {self.group} of {self.queue} has {what}",
                "Stop its stream, and settle its checkpoint: posthouse pipeline settle CHECKPOINT.",
            )
        if self.state.position > self.position:
            raise InvalidParameter(
                f"the group {self.group} of {self.queue} has acknowledged everything up to lookup "
                f"id {self.state.position}, and the checkpoint has read up to {self.position}",
                "A new checkpoint goes on from the group's position.",
            )
        is_own = self.offset.group == self.group
        if self.state.acknowledged and self.state.position < self.position and not is_own:
            raise InvalidParameter(
                f"the group {self.group} of {self.queue} has been read with, up to lookup id "
                f"{self.state.position}: its reader would miss what lies up to {self.position}",
                "Name a new group. If nothing else reads with this one: posthouse group set "
                f"'{self.queue}' {self.group} --position {self.position}.",
            )

    def done(self, *, dry_run: bool) -> Rebased:
        before = None if self.state is None else self.state.position
        if not dry_run and before != self.position:
            reader = self.endpoint.group(self.queue, self.group)
            if before is None:
                _make(reader, self.position)
            else:
                self.endpoint.set_group(self.queue, self.group, self.position)
        return Rebased(self.queue, self.group, self.position, before)


def _make(reader: GroupReader, position: int) -> None:
    owner = reader_name()
    state = reader.lease(CONSUME, owner, position)
    reader.end(CONSUME, owner, state.epoch)
