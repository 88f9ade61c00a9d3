"""Turns record batches into messages of a stage, in portions, by destination.

Needs pyarrow and numpy; `handlers/stages.py` brings it in where a stage is written. What is slow
runs in a thread: reading the rows, and making the packets once their queues are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from posthouse.engine.pipelines.stage import StagedRun, StageTarget
from posthouse.model.errors import QueueError
from posthouse.protocols.arrow.stages.columns import (
    GroupColumns,
    How,
    RowGroup,
    check_schema,
    grouped,
)
from posthouse.protocols.arrow.stages.packets import Maker, is_transactional, made, merged
from posthouse.protocols.handlers.refusals import BadRequest, BadRow

PORTION_ROWS: Final = 8192
PORTION_BYTES: Final = 8 << 20


def read_schema(data: bytes) -> pa.Schema:
    """The schema that a stream begins with, if its rows can be messages."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        check_schema(schema)  # reads names, which need not be UTF-8
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise BadRequest(f"the stream has no sound schema: {error}") from None
    return schema


def read_batch(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """A record batch, in which every offset was checked: it comes from outside."""
    try:
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(data)), schema)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise BadRequest(f"the stream has a record batch that is not sound: {error}") from None
    if batch.nbytes > len(data):
        raise BadRequest("the stream has a record batch that is larger than what was sent")
    return batch


class RowPortion:
    """Rows that are appended together."""

    def __init__(self, groups: list[RowGroup]) -> None:
        self._groups = groups

    @property
    def count(self) -> int:
        """How many messages it makes."""
        return sum(len(group.rows) for group in self._groups)

    @property
    def destinations(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(group.how.destination for group in self._groups))

    @property
    def answer_queues(self) -> list[str]:
        """Those that acknowledgments are to go to."""
        names = [g.how.admin_queue for g in self._groups if g.how.acknowledge and g.how.admin_queue]
        return list(dict.fromkeys(names))

    def refused(self, error: QueueError, *, destination: str = "", answers: str = "") -> BadRow:
        """A queue of these rows was refused: which row named it first."""
        column = "destination" if destination else "admin_queue"
        wanted = destination or answers
        rows = [
            int(group.places[0]) for group in self._groups if getattr(group.how, column) == wanted
        ]
        return BadRow(error, min(rows), column)

    def runs(
        self, maker: Maker, targets: dict[str, StageTarget], number: int, ordinals: list[int]
    ) -> list[StagedRun]:
        """The records of all rows: one run for each lane, in the order of its rows."""
        runs, at, numbered = list[StagedRun](), 0, np.array(ordinals, "<u4")
        for lane in self._lanes(targets):
            end = at + sum(len(group.rows) for group in lane)
            numbers = np.arange(number + at, number + end)
            runs.append(_lane_run(maker, targets, lane, numbers, numbered[at:end]))
            at = end
        return runs

    def _lanes(self, targets: dict[str, StageTarget]) -> list[list[RowGroup]]:
        """Groups by what has an order: a queue, and there each priority for itself."""
        lanes = dict[tuple[int, bool, int], list[RowGroup]]()
        for group in sorted(self._groups, key=lambda group: int(group.places[0])):
            how, target = group.how, targets[group.how.destination]
            transactional = is_transactional(target, how)
            lane = (target.queue, transactional, 0 if transactional else how.priority)
            lanes.setdefault(lane, []).append(group)
        return list(lanes.values())


def _lane_run(
    maker: Maker, targets: dict[str, StageTarget], lane: list[RowGroup], numbers: Any, ordinals: Any
) -> StagedRun:
    """Rows of a lane that are sent in several ways are numbered by their places."""
    if len(lane) == 1:
        return _run(maker, targets, lane[0], numbers, ordinals)
    order = np.argsort(np.concatenate([group.places for group in lane]))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    ends = np.cumsum([len(group.rows) for group in lane])[:-1]
    parts = zip(lane, np.split(ranks, ends), strict=True)
    runs = [_run(maker, targets, group, numbers[at], ordinals[at]) for group, at in parts]
    return merged(runs, order)


def _run(
    maker: Maker, targets: dict[str, StageTarget], group: RowGroup, numbers: Any, ordinals: Any
) -> StagedRun:
    how, values = group.how, GroupColumns(group)
    target = targets[how.destination]
    try:
        if target.outgoing and values.identifiers() is not None:
            raise values.refuse(0, "id", "messages to other machines get new identifiers")
        return made(maker, target, how, values, numbers, ordinals)
    except BadRow:
        raise
    except QueueError as error:
        raise BadRow(error, int(group.places[0]), _blamed(how)) from None


def _blamed(how: How) -> str:
    """Values are checked one by one before; what is wrong still lies in how they go together."""
    return "admin_queue" if how.acknowledge else "destination"


def portions(batch: pa.RecordBatch, queue: str, base: int) -> Iterator[RowPortion]:
    """A batch in pieces; `base` is the place of its first row in the stage."""
    rows = len(batch)
    size = max(batch.nbytes, 1)
    step = max(min(PORTION_ROWS, rows * PORTION_BYTES // size), 1)
    for at in range(0, rows, step):
        yield RowPortion(grouped(batch.slice(at, step), queue, base + at))
