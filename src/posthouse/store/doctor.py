"""Checks a store without changing it: what is good, what is damaged, and what to do.

Everything is read: each record of each segment with its checksum, each index against its segment,
the checkpoints against a replay of the whole log.
"""

from __future__ import annotations

import msgspec

from posthouse.engine.ledger.state import State
from posthouse.store.checkpoint import (
    checkpoint_name,
    checkpoint_names,
    read_checkpoint,
    read_head,
)
from posthouse.store.disk import Disk
from posthouse.store.errors import FormatUnknown, StoreDamaged, StoreError
from posthouse.store.export import Salvage
from posthouse.store.express import express_name, read_marker
from posthouse.store.format import (
    EXPRESS_MAGIC,
    SegmentEntry,
    generation_of,
    index_name,
    is_recycled,
    segment_name,
    unpack_segment_header,
)
from posthouse.store.index import SegmentIndex, finished
from posthouse.store.read import read_file
from posthouse.store.recovery import (
    Anchor,
    OpenedLog,
    Recovery,
    load_index,
    rebuild_index,
    sealed_segment,
)
from posthouse.store.salvage import Piece, pieces
from posthouse.store.segment import Scanner

NO_ID = bytes(16)
EXPORT = "save what is good with --export DIR"
ACCEPT = "then, if there is no better copy of the file, go on without it: --accept-loss"
SERVED = (
    "a start serves everything else, unless [store] damage is 'refuse'; `posthouse damage list` "
    "shows it then, and `posthouse damage accept` gives it up. Or now: "
)


class Problem(msgspec.Struct):
    """Something that is not as it was written."""

    file: str
    offset: int
    reason: str
    remedy: str


class Report(msgspec.Struct):
    """What a look at a store found."""

    segments: int = 0
    records_good: int = 0
    records_bad: int = 0
    messages: int = 0
    bytes: int = 0
    torn_bytes: int = 0
    problems: list[Problem] = []
    notes: list[str] = []

    @property
    def healthy(self) -> bool:
        """Nothing was lost that had been answered for."""
        return not self.problems


def check(disk: Disk) -> Report:
    """Reads everything, changes nothing."""
    report = Report(problems=[], notes=[])
    try:
        found = _examine(disk, report, log_only=False)
        whole = _examine(disk, report, log_only=True)
        _check_segments(disk, report, whole)
        _check_checkpoints(disk, report)
        _check_express(disk, report)
    except FormatUnknown as error:
        report.problems.append(Problem(error.file, 8, str(error), "use the version it names"))
        return report
    report.messages = len(whole.state.table if whole else Salvage(disk).state.table)
    if found is not None and whole is not None:
        report.torn_bytes = whole.torn_bytes
        if not whole.asides:  # else the log has less than a checkpoint
            _compare(report, found, whole)
    return report


def _examine(disk: Disk, report: Report, *, log_only: bool) -> OpenedLog | None:
    recovery = Recovery(disk, NO_ID, log_only=log_only, set_aside=True)
    try:
        found = recovery.examine()
    except StoreDamaged as error:
        _problem(report, error)
        return None
    for aside in found.asides:
        name = segment_name(aside.segment)
        damage = StoreDamaged(name, aside.offset, aside.reason)
        _problem(report, damage, f"{SERVED}{EXPORT}; {ACCEPT} {name}")
    if found.torn_bytes:
        _note(
            report,
            f"{found.torn_bytes} bytes at the end of the log were never synced nor answered for; "
            "the next start cuts them off",
        )
    return found


def _problem(report: Report, error: StoreDamaged, remedy: str = "") -> None:
    known = [(problem.file, problem.offset) for problem in report.problems]
    if (error.file, error.offset) not in known:
        remedy = remedy or f"{EXPORT}; {ACCEPT} {error.file}"
        report.problems.append(Problem(error.file, error.offset, error.reason, remedy))


def _note(report: Report, text: str) -> None:
    if text not in report.notes:
        report.notes.append(text)


# -- segments


def _check_segments(disk: Disk, report: Report, found: OpenedLog | None) -> None:
    """Every record; with what a start would keep, or, where none is possible, all there is."""
    if found is not None:
        for segment in found.ledger.segments.values():
            _check_sealed(disk, report, segment.entry(), found.store_id)
        return
    recovery = Recovery(disk, NO_ID)
    anchor = recovery.newest_sound()
    if anchor is not None:
        for entry in anchor.live:
            if disk.exists(segment_name(entry.number)):
                _check_sealed(disk, report, entry, recovery.store_id)
        _check_newest(report, anchor)


def _check_sealed(disk: Disk, report: Report, entry: SegmentEntry, store_id: bytes) -> None:
    name = segment_name(entry.number)
    data = read_file(disk, name)
    report.segments += 1
    report.bytes += len(data)
    behind = data[entry.length :].rstrip(b"\0")
    if behind and not is_recycled(data):
        _note(report, f"{name} has {len(behind)} bytes after its end")
    try:
        unpack_segment_header(data, name, entry.number)
    except StoreDamaged as error:
        _problem(report, error)
    generation = generation_of(store_id, entry.number)
    found = list(
        pieces(data[: entry.length], generation, entry.first_sequence, entry.last_sequence)
    )
    _count(report, name, found)
    if not any(piece.reason for piece in found):
        _check_index(disk, report, entry, store_id)


def _check_newest(report: Report, anchor: Anchor) -> None:
    header = anchor.header
    report.segments += 1
    report.bytes += len(anchor.data)
    found = pieces(anchor.data, header.generation, header.first_sequence, None)
    _count(report, segment_name(header.number), list(found))


def _count(report: Report, name: str, found: list[Piece]) -> None:
    for piece in found:
        if piece.reason:
            report.records_bad += max(piece.bad, 1)
            _problem(report, StoreDamaged(name, piece.offset, piece.reason))
        else:
            report.records_good += 1


def _check_index(disk: Disk, report: Report, entry: SegmentEntry, store_id: bytes) -> None:
    """A bad index is not damage: it is never synced and is made again when it is needed."""
    segment = sealed_segment(entry, store_id)
    index = finished(load_index(disk, segment))
    if index is None:
        if disk.exists(index_name(entry.number)):
            _note(report, f"{index_name(entry.number)} is not good; it is made again when needed")
    elif not _same(index, finished(rebuild_index(disk, segment))):
        error = StoreDamaged(index_name(entry.number), 0, "the index contradicts its segment")
        _problem(report, error, "remove this file: it is made again from the segment")


def _same(one: SegmentIndex, other: SegmentIndex) -> bool:
    return (one.numbers, one.offsets, one.kinds, one.heads) == (
        other.numbers,
        other.offsets,
        other.kinds,
        other.heads,
    )


# -- checkpoints


def _check_checkpoints(disk: Disk, report: Report) -> None:
    for name in checkpoint_names(disk.names()):
        try:
            read_checkpoint(disk, name, read_head(disk, name))
        except StoreDamaged as error:
            remedy = "nothing: a start replays the log instead, and later removes the file"
            _problem(report, error, remedy)


def _compare(report: Report, found: OpenedLog, whole: OpenedLog) -> None:
    """A start from a checkpoint must come to the state of the whole log."""
    found.state.drop_express()
    differing = differences(found.state, whole.state)
    if differing:
        reason = f"the checkpoint and the log disagree about {', '.join(differing)}"
        error = StoreDamaged(checkpoint_name(found.checkpoint_position), 0, reason)
        _problem(report, error, "move this file away: the log is the authority")


def differences(one: State, other: State) -> list[str]:
    """Which parts of two states differ."""
    parts = {
        "messages": (dict(one.table.items()), dict(other.table.items())),
        "their order": (_orders(one), _orders(other)),
        "extras": (one.extras, other.extras),
        "pending messages": (one.pending, other.pending),
        "definitions": (one.definitions, other.definitions),
        "the books": (_books(one, one), _books(other, one)),
    }
    return [name for name, (left, right) in parts.items() if left != right]


def _orders(state: State) -> dict[int, list[int]]:
    return {
        number: [message for _, message in queue.order.forward()]
        for number, queue in state.queues.items()
        if queue.count
    }


def _books(state: State, known: State) -> dict[int, list[int]]:
    """The books to compare. A deleted queue has none, though a replay of the whole log still
    finds them.
    """
    return {
        number: queue.books[1:]
        for number, queue in state.queues.items()
        if any(queue.books[1:]) and (queue.count or number in known.queues)
    }


# -- express messages


def _check_express(disk: Disk, report: Report) -> None:
    """Express segments matter only after a clean stop."""
    try:
        marker = read_marker(disk)
    except StoreDamaged as error:
        _problem(report, error, "nothing: the next start counts the express messages as lost")
        return
    for number, end, *_ in marker.stop.segments if marker else []:
        try:
            _check_express_segment(disk, number, end)
        except StoreError as error:
            _note(report, f"express messages of the last stop cannot all be read: {error}")


def _check_express_segment(disk: Disk, number: int, end: int) -> None:
    name = express_name(number)
    if not disk.exists(name):
        raise StoreDamaged(name, 0, "the file is missing")
    data = read_file(disk, name)[:end]
    header = unpack_segment_header(data, name, number, EXPRESS_MAGIC)
    scanner = Scanner(data, header.generation, 0)
    for _ in scanner:
        pass
    if scanner.reason or scanner.offset != end:
        raise StoreDamaged(name, scanner.offset, scanner.reason or "the file ends too early")
