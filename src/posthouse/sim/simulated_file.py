"""One file of a simulated disk, and what a power loss leaves of it.

A file has three faces: the bytes that are certainly on the disk, the changes that are not yet
synced, and the bytes a reader sees now. A crash keeps the first and, as chance has it, parts of
the second. The rules are harsher than any one file system, so that the store relies on nothing
but sync:

- each unsynced write is lost, kept, cut at a byte, or kept in some of its 512-byte sectors only;
  a later write may outlive an earlier one;
- a file may have grown although the bytes that made it grow are lost: there are zeros then, or
  noise, or what some removed file had in that place.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

SECTOR_SIZE = 512
FAVOURS = (0.1, 0.5, 0.9)  # chances of a whole change to survive; one holds for a whole crash


class Change(NamedTuple):
    """An unsynced change of a file: bytes at an offset, or (without bytes) a new length."""

    number: int
    offset: int
    data: bytes | None

    @property
    def end(self) -> int:
        """The length the file has at least (write) or exactly (truncate) after it."""
        return self.offset + len(self.data or b"")


class Inode:
    """Content of one simulated file; names are the directory's business."""

    __slots__ = ("_borrowed", "changes", "durable", "handles", "live")

    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.durable = bytearray(content)
        self.live = bytearray(content)
        self.changes: list[Change] = []
        self.handles = 0
        self._borrowed = False

    def copy(self) -> "Inode":
        """A copy of the state; the bytes are shared until one side changes them."""
        other = Inode.__new__(Inode)
        other.durable, other.live = self.durable, self.live
        other.changes = list(self.changes)
        other.handles = 0
        other._borrowed = self._borrowed = True
        return other

    def synced_copy(self) -> "Inode":
        """A file of what is durable only."""
        other = self.copy()
        other.live = other.durable
        other.changes = []
        return other

    def write(self, number: int, offset: int, data: bytes) -> None:
        """Put bytes where readers see them; the disk gets them at the next sync."""
        if not data:
            return
        self._own()
        put(self.live, offset, data)
        self.changes.append(Change(number, offset, data))

    def truncate(self, number: int, size: int) -> None:
        """Change the length where readers see it."""
        self._own()
        resize(self.live, size)
        self.changes.append(Change(number, size, None))

    def sync(self) -> None:
        """Make every change durable."""
        self._own()
        for change in self.changes:
            apply(self.durable, change)
        self.changes.clear()

    def fail_sync(self, chance: Random, stale: bytes) -> None:
        """A failed fsync as Linux has it: some dirty pages are lost and all are called clean.

        A later sync succeeds without them. Readers still see the new bytes, or, where the pages
        have left the cache since, whatever the disk has.
        """
        self.durable = self.survivor(chance, stale)
        self.live = bytearray(self.live)
        self._borrowed = False
        self.changes.clear()
        if chance.random() < 0.5:
            size = len(self.live)
            self.live = bytearray(self.durable)
            resize(self.live, size)

    def damage(self, offset: int, mask: int) -> None:
        """Flip bits of one byte, on the disk and for readers."""
        self._own()
        for content in (self.durable, self.live):
            if offset < len(content):
                content[offset] ^= mask

    def cut(self, size: int) -> None:
        """Lose everything from `size` on, on the disk and for readers."""
        self._own()
        del self.durable[size:]
        del self.live[size:]

    def kept(self, sizes: Mapping[int, int]) -> bytearray:
        """Content if exactly the given changes survive, each up to this many bytes."""
        content = bytearray(self.durable)
        for change in self.changes:
            if change.number in sizes:
                data = None if change.data is None else change.data[: sizes[change.number]]
                apply(content, change._replace(data=data))
        return content

    def everything(self) -> bytearray:
        """Content if every change survives."""
        content = bytearray(self.durable)
        for change in self.changes:
            apply(content, change)
        return content

    def survivor(self, chance: Random, stale: bytes) -> bytearray:
        """Content after a power loss in which each change meets its own fate."""
        content = bytearray(self.durable)
        favour = chance.choice(FAVOURS)
        for change in self.changes:
            whole = chance.random() < favour
            if change.data is not None:
                parts = [(0, len(change.data))] if whole else torn_parts(change, chance)
                put_parts(content, change.offset, change.data, parts, chance, stale)
            elif whole:
                resize(content, change.offset)
        return content

    def _own(self) -> None:
        if self._borrowed:
            self.durable, self.live = bytearray(self.durable), bytearray(self.live)
            self._borrowed = False


def put(content: bytearray, offset: int, data: bytes) -> None:
    """Write into content; a gap before `offset` reads as zeros, as in a sparse file."""
    if offset > len(content):
        resize(content, offset)
    content[offset : offset + len(data)] = data


def resize(content: bytearray, size: int) -> None:
    """Cut, or grow with zeros."""
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def apply(content: bytearray, change: Change) -> None:
    """Carry out one change whole."""
    if change.data is None:
        resize(content, change.offset)
    else:
        put(content, change.offset, change.data)


def put_parts(
    content: bytearray,
    offset: int,
    data: bytes,
    parts: list[tuple[int, int]],
    chance: Random,
    stale: bytes,
) -> None:
    """Write some parts of a write; the file may have grown by all of it."""
    grown = max((end for _, end in parts), default=0)
    if chance.random() < 0.5:
        grown = len(data)
    if offset + grown > len(content):
        content += filler(len(content), offset + grown, chance, stale)
    for start, end in parts:
        put(content, offset + start, data[start:end])


def torn_parts(change: Change, chance: Random) -> list[tuple[int, int]]:
    """Ranges of a torn write that reach the disk: none, a head, a tail, or some sectors."""
    size = change.end - change.offset
    fate = chance.choice(("lost", "head", "tail", "sectors"))
    if fate == "head":
        return [(0, chance.randint(0, size))]
    if fate == "tail":
        return [(chance.randint(0, size), size)]
    if fate == "sectors":
        return [part for part in sectors(change.offset, size) if chance.random() < 0.5]
    return []


def sectors(offset: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of a write, cut where the disk's sectors end."""
    start = 0
    while start < size:
        end = min(size, start + SECTOR_SIZE - (offset + start) % SECTOR_SIZE)
        yield start, end
        start = end


def filler(start: int, end: int, chance: Random, stale: bytes) -> bytes:
    """What lies in a part of a file that nothing was written to: zeros, noise, or old content."""
    kind = chance.choice(("zeros", "noise", "stale"))
    if kind == "noise":
        return chance.randbytes(end - start)
    old = stale[start:end] if kind == "stale" else b""
    return old + bytes(end - start - len(old))
