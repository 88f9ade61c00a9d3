"""Checkpoints: the whole state at one position, so that a start need not replay the log.

A checkpoint is a convenience, never an authority: one that is missing, damaged or does not fit
the log is passed over. It counts only once it has its final name, and it gets that name only when
the log is synced up to its position; so it also proves that the log was.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence, Sized
from errno import EDQUOT, ENOSPC
from itertools import islice
from threading import Thread
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.state import Lanes, Shared, Snapshot, State
from posthouse.store.checksum import crc32
from posthouse.store.disk import Disk
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CRC, FORMAT_VERSION, check_head
from posthouse.store.ledger import Account, Definition, Key, StoreLedger
from posthouse.store.positions import Positions
from posthouse.store.read import read_file

CHECKPOINT_MAGIC = b"PHCHECKP"
CHECKPOINT_PREFIX = "checkpoint-"
TEMPORARY_SUFFIX = ".tmp"
CHECKPOINTS_KEPT = 2
_HEAD = struct.Struct("<8sHxxIIQ16sQII")  # ..., body's size and checksum, checksum of the head

# The body is frames, so that a thread can encode it in small bites beside the running store.
_FRAME = struct.Struct("<BI")  # kind, length
PAGES = 1  # of rows
PLACES = 2  # of positions
REST = 3  # a Snapshot without its pages
ACCOUNTS = 4
_FRAME_PAGES = 128
_PIECE_BYTES = 1 << 20  # of a frame that is written in pieces, about
_HEADER_32 = struct.Struct(">BI")  # MessagePack: of an array or a map
_ARRAY_32, _MAP_32 = 0xDD, 0xDF


class CheckpointHead(NamedTuple):
    """Where in the log a checkpoint was taken."""

    segment: int
    offset: int
    position: int
    store_id: bytes
    body_size: int = 0
    body_crc: int = 0


class LedgerAccounts(msgspec.Struct):
    """The ledger without its positions."""

    segments: list[Account]
    definitions: list[tuple[Key, tuple[int, ...], int, bool]]
    copied_from: list[int]


class Picture(NamedTuple):
    """A checkpoint to be written, taken between two appends.

    No request is served while it is taken, and there may be very many messages and definitions. So
    of these only tables are copied: what is in the tables is not changed but replaced, and is put
    together piece by piece while it is written.
    """

    head: CheckpointHead
    state: Shared
    places: dict[int, bytearray]
    accounts: LedgerAccounts  # without definitions
    values: dict[Key, bytes]
    holders: dict[Key, Definition]

    def frames(self) -> Iterator[bytes]:
        """The body, piece by piece."""
        for pages in in_bites(self.state.pages):
            yield frame(PAGES, _encode(pages))
        for places in in_bites(self.places):
            yield frame(PLACES, _encode(places))
        values = _array(self.values, ((*key, value) for key, value in self.values.items()))
        rest = _encode(replaced(self.state.rest, definitions=values))
        size = sum(map(len, self._rest(rest)))
        yield _FRAME.pack(REST, size)
        yield from self._rest(rest)
        holders = _array(self.holders, ((key, *known) for key, known in self.holders.items()))
        yield frame(ACCOUNTS, _encode(replaced(self.accounts, definitions=holders)))

    def _rest(self, rest: bytes) -> Iterator[bytes]:
        """The Snapshot, in whose encoded form the lanes are put in where it has an empty map."""
        begin = rest.index(_NO_LANES) + len(_NO_LANES) - 1
        yield rest[:begin]
        yield from gathered(_encoded_lanes(self.state.lanes))
        yield rest[begin + 1 :]


def _encoded_lanes(lanes: Lanes) -> Iterator[bytes]:
    yield _HEADER_32.pack(_MAP_32, len(lanes))
    for queue, priorities in lanes.items():
        yield _encode(queue) + _HEADER_32.pack(_MAP_32, len(priorities))
        for priority, chunks in priorities.items():
            yield _encode(priority) + _HEADER_32.pack(_ARRAY_32, len(chunks))
            for ids, numbers in chunks:
                yield _encode((ids.tobytes(), numbers.tobytes()))


def gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """All bytes of these parts, in pieces that are worth a call of the system."""
    some: list[bytes] = []
    size = 0
    for part in parts:
        some.append(part)
        size += len(part)
        if size >= _PIECE_BYTES:
            yield b"".join(some)
            some, size = [], 0
    yield b"".join(some)


def _array(of: Sized, items: Iterable[tuple[object, ...]]) -> msgspec.Raw:
    """MessagePack of many things, one after the other: a list of them would be looked at by the
    collector of cycles, while no request is served."""
    head = _HEADER_32.pack(_ARRAY_32, len(of))
    return msgspec.Raw(b"".join([head, *map(_encode, items)]))


def in_bites(pages: dict[int, bytearray]) -> Iterator[dict[int, bytearray]]:
    """Some pages at a time."""
    entries = iter(pages.items())
    while bite := dict(islice(entries, _FRAME_PAGES)):
        yield bite


def frame(kind: int, data: bytes) -> bytes:
    """A piece of the body."""
    return _FRAME.pack(kind, len(data)) + data


class Checkpoint(NamedTuple):
    """A checkpoint read back."""

    head: CheckpointHead
    state: State
    positions: Positions
    accounts: LedgerAccounts


replaced = msgspec.structs.replace
_encode = msgspec.msgpack.Encoder().encode
_NO_LANES = _encode("lanes") + _encode({})
_decode_pages = msgspec.msgpack.Decoder(dict[int, bytearray]).decode
_decode_rest = msgspec.msgpack.Decoder(Snapshot).decode
_decode_accounts = msgspec.msgpack.Decoder(LedgerAccounts).decode


def checkpoint_name(position: int) -> str:
    """The file of the checkpoint at a position; names sort like positions."""
    return f"{CHECKPOINT_PREFIX}{position:016x}"


def checkpoint_names(names: list[str]) -> list[str]:
    """Files that are checkpoints by their names, the newest first."""
    size = len(checkpoint_name(0))
    found = [n for n in names if n.startswith(CHECKPOINT_PREFIX) and len(n) == size]
    return sorted(found, reverse=True)


# -- writing


def take_picture(state: State, ledger: StoreLedger, head: CheckpointHead) -> Picture:
    """State and ledger as they are; they must agree with the log up to the head's position."""
    return Picture(
        head,
        state.share(),
        ledger.positions.share(),
        LedgerAccounts(
            segments=ledger.accounts(), definitions=[], copied_from=sorted(ledger.copied_from)
        ),
        dict(state.definitions),
        dict(ledger.definitions),
    )


def write_picture(disk: Disk, picture: Picture, name: str) -> None:
    """Writes and syncs a checkpoint; the head comes last, when size and checksum are known."""
    if disk.exists(name):
        disk.unlink(name)
    file = disk.open(name, create=True)
    try:
        size, crc = 0, 0
        for piece in picture.frames():
            file.write([piece], _HEAD.size + size)
            size += len(piece)
            crc = crc32(piece, crc)
        head = picture.head._replace(body_size=size, body_crc=crc)
        packed = _HEAD.pack(CHECKPOINT_MAGIC, FORMAT_VERSION, *head, 0)[: -CRC.size]
        file.write([packed + CRC.pack(crc32(packed))], 0)
        file.sync()
    finally:
        file.close()


def write_file(disk: Disk, name: str, parts: Sequence[bytes], *, sync: bool = True) -> None:
    """A whole file, in place of one of that name; its entry in the directory is not yet synced."""
    if disk.exists(name):
        disk.unlink(name)
    file = disk.open(name, create=True)
    try:
        file.write(parts, 0)
        if sync:
            file.sync()
    finally:
        file.close()


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
    body = memoryview(read_file(disk, name))[_HEAD.size :]
    if len(body) != head.body_size or crc32(body) != head.body_crc:
        raise StoreDamaged(name, _HEAD.size, "the checkpoint has a wrong checksum")
    try:
        return _decoded(head, body)
    except (ValueError, KeyError, struct.error) as error:
        raise StoreDamaged(
            name, _HEAD.size, f"the checkpoint contradicts itself: {error}"
        ) from None


def _decoded(head: CheckpointHead, body: memoryview) -> Checkpoint:
    pages: dict[int, bytearray] = {}
    places: dict[int, bytearray] = {}
    singles: dict[int, memoryview] = {}
    at = 0
    while at < len(body):
        kind, size = _FRAME.unpack_from(body, at)
        data = body[at + _FRAME.size : at + _FRAME.size + size]
        at += _FRAME.size + size
        if kind == PAGES:
            pages |= _decode_pages(data)
        elif kind == PLACES:
            places |= _decode_pages(data)
        else:
            singles[kind] = data
    state = State.from_snapshot(_decode_rest(singles[REST]), pages)
    return Checkpoint(head, state, Positions.load(places), _decode_accounts(singles[ACCOUNTS]))


def load_accounts(ledger: StoreLedger, accounts: LedgerAccounts) -> None:
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
        ledger.definitions[key] = Definition(segments, weight, deleted)
    ledger.forget_absent()
    ledger.copied_from = set(accounts.copied_from)


# -- one after the other


class Checkpointer:
    """Writes one checkpoint at a time; a big one by a thread of its own."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.position = 0  # of the newest that is safe on the disk
        self.failures = 0
        self._picture: Picture | None = None
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """One is under way."""
        return self._picture is not None

    def begin(self, picture: Picture, *, inline: bool) -> None:
        """Starts to write; `step` finishes it."""
        assert self._picture is None
        self._picture, self._error = picture, None
        if inline:
            self._write(picture)
            if self._error is not None:
                self._give_up(picture, self._error)
        else:
            self._thread = Thread(target=self._write, args=(picture,), daemon=True)
            self._thread.start()

    def _write(self, picture: Picture) -> None:
        try:
            write_picture(self.disk, picture, temporary_name(picture))
        except BaseException as error:  # the thread has no caller to raise it to
            self._error = error

    def step(self, synced: int, *, wait: bool = False) -> bool:
        """Gives a written checkpoint its name once the log is synced up to it; True if it did."""
        picture = self._picture
        if picture is None or not self._written(wait):
            return False
        if self._error is not None:
            self._give_up(picture, self._error)
            return False
        if synced < picture.head.position:
            return False
        self.disk.rename(temporary_name(picture), checkpoint_name(picture.head.position))
        self.disk.sync_directory()
        self._picture = None
        self.position = picture.head.position
        self._prune()
        return True

    def _written(self, wait: bool) -> bool:
        if wait:
            self.join()
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = None
        return True

    def join(self) -> None:
        """Waits for the thread, if there is one."""
        if self._thread is not None:
            self._thread.join()

    def _give_up(self, picture: Picture, error: BaseException) -> None:
        """A full disk costs no more than this checkpoint; any other error is the disk's end."""
        self._picture = None
        if not isinstance(error, OSError) or error.errno not in (ENOSPC, EDQUOT):
            raise error
        self.failures += 1
        if self.disk.exists(temporary_name(picture)):
            self.disk.unlink(temporary_name(picture))

    def _prune(self) -> None:
        for name in checkpoint_names(self.disk.names())[CHECKPOINTS_KEPT:]:
            self.disk.unlink(name)


def temporary_name(picture: Picture) -> str:
    """The file of a checkpoint before it counts."""
    return checkpoint_name(picture.head.position) + TEMPORARY_SUFFIX
