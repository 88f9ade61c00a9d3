"""Checkpoints: the whole state at one position, so that a start need not replay the log.

A checkpoint is a convenience, never an authority: one that is missing, damaged or does not fit
the log is passed over. It counts only once it has its final name, and it gets that name only when
the log is synced up to its position; so it also proves that the log was.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from errno import EDQUOT, ENOSPC
from threading import Thread
from typing import NamedTuple
from zlib import crc32

import msgspec

from posthouse.engine.state import State
from posthouse.store.disk import Disk, File
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CRC, FORMAT_VERSION, check_head
from posthouse.store.ledger import Account, Definition, Key, Ledger
from posthouse.store.positions import Positions

CHECKPOINT_MAGIC = b"PHCHECKP"
CHECKPOINT_PREFIX = "checkpoint-"
TEMPORARY_SUFFIX = ".tmp"
CHECKPOINTS_KEPT = 2
_HEAD = struct.Struct("<8sHxxIIQ16sQQQII")  # ..., body's checksum, checksum of the head
_WRITE_SIZE = 4 << 20


class CheckpointHead(NamedTuple):
    """Where in the log a checkpoint was taken, and the sizes of its three parts."""

    segment: int
    offset: int
    position: int
    store_id: bytes
    state_size: int
    positions_size: int
    accounts_size: int
    body_crc: int

    @property
    def body_size(self) -> int:
        """Bytes behind the head."""
        return self.state_size + self.positions_size + self.accounts_size


class Accounts(msgspec.Struct):
    """The ledger without its positions."""

    segments: list[Account]
    definitions: list[tuple[Key, list[int], int, bool]]
    copied_from: list[int]


class Snapshot(NamedTuple):
    """A checkpoint to be written; taken between two appends."""

    head: CheckpointHead
    parts: list[bytes]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return _HEAD.size + self.head.body_size


class Checkpoint(NamedTuple):
    """A checkpoint read back."""

    head: CheckpointHead
    state: State
    positions: Positions
    accounts: Accounts


_encode = msgspec.msgpack.Encoder().encode
_decode_positions = msgspec.msgpack.Decoder(dict[int, bytes]).decode
_decode_accounts = msgspec.msgpack.Decoder(Accounts).decode


def checkpoint_name(position: int) -> str:
    """The file of the checkpoint at a position; names sort like positions."""
    return f"{CHECKPOINT_PREFIX}{position:016x}"


def checkpoint_names(names: list[str]) -> list[str]:
    """Files that are checkpoints by their names, the newest first."""
    size = len(checkpoint_name(0))
    found = [n for n in names if n.startswith(CHECKPOINT_PREFIX) and len(n) == size]
    return sorted(found, reverse=True)


# -- writing


def take_snapshot(state: State, ledger: Ledger, head: CheckpointHead) -> Snapshot:
    """State and ledger, packed; they must agree with the log up to the head's position."""
    accounts = Accounts(
        segments=ledger.accounts(),
        definitions=[
            (key, known.segments, known.weight, known.deleted)
            for key, known in ledger.definitions.items()
        ],
        copied_from=sorted(ledger.copied_from),
    )
    parts = [state.dump(), _encode(ledger.positions.dump()), _encode(accounts)]
    sizes = [len(part) for part in parts]
    whole = head._replace(
        state_size=sizes[0], positions_size=sizes[1], accounts_size=sizes[2], body_crc=0
    )
    return Snapshot(whole, parts)


def write_snapshot(disk: Disk, snapshot: Snapshot, name: str) -> None:
    """Writes and syncs a checkpoint under a temporary name."""
    body_crc = 0
    for part in snapshot.parts:
        body_crc = crc32(part, body_crc)
    head = _HEAD.pack(
        CHECKPOINT_MAGIC, FORMAT_VERSION, *snapshot.head._replace(body_crc=body_crc), 0
    )[: -CRC.size]
    write_file(disk, name, [head, CRC.pack(crc32(head)), *snapshot.parts])


def write_file(disk: Disk, name: str, parts: Sequence[bytes], *, sync: bool = True) -> None:
    """A whole file, in place of one of that name; its entry in the directory is not yet synced."""
    if disk.exists(name):
        disk.unlink(name)
    file = disk.open(name, create=True)
    try:
        _write_parts(file, parts)
        if sync:
            file.sync()
    finally:
        file.close()


def _write_parts(file: File, parts: Sequence[bytes]) -> None:
    offset = 0
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(part), _WRITE_SIZE):
            offset += file.write([view[start : start + _WRITE_SIZE]], offset)


# -- reading


def read_head(disk: Disk, name: str) -> CheckpointHead:
    """The head of a checkpoint, StoreDamaged or FormatUnknown if it is none."""
    file = disk.open(name)
    try:
        data, size = file.read(0, _HEAD.size), file.size()
    finally:
        file.close()
    if len(data) < _HEAD.size:
        raise StoreDamaged(name, len(data), "the checkpoint ends inside its header")
    check_head(data, name, CHECKPOINT_MAGIC, "a checkpoint")
    head = CheckpointHead(*_HEAD.unpack(data)[2:-1])
    if size != _HEAD.size + head.body_size:
        raise StoreDamaged(name, size, "the checkpoint has a wrong length")
    return head


def read_checkpoint(disk: Disk, name: str, head: CheckpointHead) -> Checkpoint:
    """A whole checkpoint, or StoreDamaged."""
    sizes = (head.state_size, head.positions_size, head.accounts_size)
    parts, offset, crc = [], _HEAD.size, 0
    file = disk.open(name)
    try:
        for size in sizes:
            parts.append(file.read(offset, size))
            offset += size
            crc = crc32(parts[-1], crc)
    finally:
        file.close()
    if crc != head.body_crc:
        raise StoreDamaged(name, _HEAD.size, "the checkpoint has a wrong checksum")
    try:
        state, positions = State.load(parts[0]), Positions.load(_decode_positions(parts[1]))
        return Checkpoint(head, state, positions, _decode_accounts(parts[2]))
    except (ValueError, KeyError) as error:
        raise StoreDamaged(
            name, _HEAD.size, f"the checkpoint contradicts itself: {error}"
        ) from None


def load_accounts(ledger: Ledger, accounts: Accounts) -> None:
    """Takes over the accounts of those segments that are still there."""
    for account in accounts.segments:
        segment = ledger.segments.get(account.number)
        if segment is not None:
            segment.live_bytes = account.live_bytes
            segment.fixed_bytes = account.fixed_bytes
            segment.definition_bytes = account.definition_bytes
            segment.needs = dict(account.needs)
            segment.keeps = dict(account.keeps)
    for key, segments, weight, deleted in accounts.definitions:
        known = ledger.definitions[key] = Definition()
        known.segments, known.weight, known.deleted = segments, weight, deleted
    ledger.copied_from = set(accounts.copied_from)


# -- one after the other


class Checkpointer:
    """Writes one checkpoint at a time; a big one by a thread of its own."""

    def __init__(self, disk: Disk, inline_size: int) -> None:
        self.disk = disk
        self.inline_size = inline_size
        self.position = 0  # of the newest that is safe on the disk
        self.failures = 0
        self._snapshot: Snapshot | None = None
        self._thread: Thread | None = None
        self._error: OSError | None = None

    @property
    def busy(self) -> bool:
        """One is under way."""
        return self._snapshot is not None

    def begin(self, snapshot: Snapshot) -> None:
        """Starts to write; `step` finishes it."""
        assert self._snapshot is None
        self._snapshot, self._error = snapshot, None
        if snapshot.size <= self.inline_size:
            self._write(snapshot)
            if self._error is not None:
                self._give_up(snapshot, self._error)
        else:
            self._thread = Thread(target=self._write, args=(snapshot,), daemon=True)
            self._thread.start()

    def _write(self, snapshot: Snapshot) -> None:
        try:
            write_snapshot(self.disk, snapshot, temporary_name(snapshot))
        except OSError as error:
            self._error = error

    def step(self, synced: int, *, wait: bool = False) -> bool:
        """Gives a written checkpoint its name once the log is synced up to it; True if it did."""
        snapshot = self._snapshot
        if snapshot is None or not self._written(wait):
            return False
        if self._error is not None:
            self._give_up(snapshot, self._error)
            return False
        if synced < snapshot.head.position:
            return False
        self.disk.rename(temporary_name(snapshot), checkpoint_name(snapshot.head.position))
        self.disk.sync_directory()
        self._snapshot = None
        self.position = snapshot.head.position
        self._prune()
        return True

    def _written(self, wait: bool) -> bool:
        if self._thread is not None:
            if wait:
                self._thread.join()
            if self._thread.is_alive():
                return False
            self._thread = None
        return True

    def _give_up(self, snapshot: Snapshot, error: OSError) -> None:
        """A full disk costs no more than this checkpoint; any other error is the disk's end."""
        self._snapshot = None
        if error.errno not in (ENOSPC, EDQUOT):
            raise error
        self.failures += 1
        if self.disk.exists(temporary_name(snapshot)):
            self.disk.unlink(temporary_name(snapshot))

    def _prune(self) -> None:
        for name in checkpoint_names(self.disk.names())[CHECKPOINTS_KEPT:]:
            self.disk.unlink(name)


def temporary_name(snapshot: Snapshot) -> str:
    """The file of a checkpoint before it counts."""
    return checkpoint_name(snapshot.head.position) + TEMPORARY_SUFFIX
