"""Errors of a store: it failed, it is damaged, or it has another format."""

from __future__ import annotations

from posthouse.engine.ledger.effects import Unreadable


class StoreError(Exception):
    """Any of the three."""


class StoreFailed(StoreError):
    """The disk refused a write or a sync. The process has to end and start again from the log.

    After a failed sync it is unknown which pages reached the disk, and the engine's state is ahead
    of the log; so the store takes nothing more and never calls anything synced afterwards.
    """


class StoreDamaged(StoreError, Unreadable):
    """Bytes that were synced are not what was written. Nothing has been changed on the disk."""

    def __init__(
        self, file: str, offset: int, reason: str, place: tuple[int, int, int] | None = None
    ) -> None:
        super().__init__(file, offset, reason)
        self.file = file
        self.offset = offset
        self.reason = reason
        self.place = place  # of one message's record: segment, offset and size

    def __str__(self) -> str:
        return (
            f"the store is damaged: {self.file}, offset {self.offset}: {self.reason}. "
            "`posthouse doctor --store HOME` explains it and saves what is good"
        )


class FormatUnknown(StoreError):
    """The file was written by another version of the format."""

    def __init__(self, file: str, version: int, known: int) -> None:
        super().__init__(file, version, known)
        self.file = file
        self.version = version
        self.known = known

    def __str__(self) -> str:
        return (
            f"{self.file} has store format {self.version}, and this Posthouse reads format "
            f"{self.known}: start the version that wrote it"
        )
