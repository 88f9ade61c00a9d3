"""Backup of a store in use, and its restore into a new home.

A backup is the log up to one position: a cut between two groups, like what a crash would leave
there, and so always consistent. The segments are pinned while they are copied; senders and readers
go on meanwhile. The manifest with the checksums comes last: without it there is no backup. Express
messages are not in it, as they would not be there after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import NamedTuple

import msgspec

from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import InvalidParameter, OperationCancelled
from posthouse.model.guids import format_guid
from posthouse.runtime.driver import Driver
from posthouse.runtime.home import STORE, Home, real_clock
from posthouse.runtime.key_file import KEYS, SEAL, closed_by, keep_key, read_key, words_for
from posthouse.runtime.loop import Loop
from posthouse.runtime.settings.file import SETTINGS_NAME, SettingsError, read_settings
from posthouse.runtime.tls_contexts import tls_uses
from posthouse.security.certificates import SEALING_KEY_SIZE
from posthouse.store.checkpoint import checkpoint_names, read_head
from posthouse.store.disk import File, RealDisk, make_directory
from posthouse.store.errors import StoreError
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings

MANIFEST_NAME = "manifest.json"
MANIFEST_SIZE_MAX = 64 << 20
FORMAT = 1
CHUNK = 1 << 20
PARTIAL = "restore.partial"
LOOKUP_IDS_RAISED = 1 << 40
MESSAGE_IDS_RAISED = 1 << 24
_STORE_FILE = re.compile(r"[0-9]{8,10}\.log|checkpoint-[0-9a-f]{16}", re.ASCII)

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class BackupRefused(InvalidParameter):
    """A backup that is not whole, or a place where none can be made or restored."""


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A file of a backup."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """The manifest of a backup."""

    format: int
    made: str
    name: str
    guid: str
    position: int
    files: list[Entry]
    settings: Entry | None = None
    checksum: str = ""

    def own_checksum(self) -> str:
        """Of everything in it but the checksum itself."""
        plain = msgspec.structs.replace(self, checksum="")
        return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files)


class Piece(NamedTuple):
    """A file to be copied, as far as it belongs to the cut."""

    name: str
    size: int
    file: File | None = None  # opened already, because its name may go


class Cut:
    """The log up to one position. Taken and given back by the owner of the store."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.position = store.appended
        self.cancelled = Event()
        segments = list(store.ledger.segments.values())
        self.pieces = [Piece(segment.name, segment.end) for segment in segments]
        self.pinned = [segment.number for segment in segments]
        for number in self.pinned:
            store.pin(number)
        self._add_checkpoint()

    def _add_checkpoint(self) -> None:
        """The newest one saves replaying; the log alone does as well, so damage is not a reason."""
        disk = self.store.disk
        with contextlib.suppress(StoreError, OSError):
            for name in checkpoint_names(disk.names())[:1]:
                if read_head(disk, name).position <= self.position:
                    self.pieces.append(Piece(name, disk.size(name), disk.open(name)))

    def give_back(self) -> None:
        """The copy is made, or given up."""
        pinned, self.pinned = self.pinned, []
        for number in pinned:
            self.store.unpin(number)
        for piece in self.pieces:
            if piece.file is not None:
                piece.file.close()


def _silent(done: int, total: int) -> None:
    """Reports no progress."""


# -- backup


async def backup(
    desk: Loop, store: LogStore, target: Path, home: Path, progress: Progress = _silent
) -> Manifest:
    """A backup of a running queue manager in a new folder; `progress` is called by a thread."""
    _require_new(target, home)
    # The answer waits for the sync of its turn, so everything in the cut is on the disk.
    cut: Cut = await desk.run(lambda m: Cut(store))
    try:
        return await asyncio.to_thread(copy_cut, cut, desk.manager, target, home, progress)
    finally:
        cut.cancelled.set()
        if not desk.stopped:
            await desk.run(lambda m: cut.give_back())


def backup_embedded(
    driver: Driver, store: LogStore, target: Path, home: Path, progress: Progress = _silent
) -> Manifest:
    """A backup of a queue manager in this process, which stops working until it is done."""
    _require_new(target, home)
    cut = driver.run(lambda m: Cut(store))
    try:
        return copy_cut(cut, driver.manager, target, home, progress)
    finally:
        cut.give_back()


def _require_new(target: Path, home: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupRefused(f"{target} is not empty", "Name a new folder for the backup.")
    if target.exists() and target.stat().st_uid not in (os.geteuid(), 0):
        raise BackupRefused(
            f"{target} belongs to another user, who could exchange the files before a restore",
            "Name a new folder for the backup.",
        )
    if target.absolute().is_relative_to(home.absolute()):
        raise BackupRefused(f"{target} lies in the home itself", "Name a folder outside of it.")


def copy_cut(
    cut: Cut, manager: QueueManager, target: Path, home: Path, progress: Progress
) -> Manifest:
    """Copies and syncs the files of a cut; the manifest is the last."""
    make_directory(target)
    copier = Copier(sum(piece.size for piece in cut.pieces), progress, cut.cancelled)
    out = RealDisk(target / STORE)
    try:
        entries = [copier.copy(_opened(cut, piece), out, piece) for piece in cut.pieces]
        out.sync_directory()
    finally:
        out.close()
    manifest = Manifest(
        format=FORMAT,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        name=manager.machine.settings.computer_name,
        guid=format_guid(manager.machine.identifier),
        position=cut.position,
        files=entries,
        settings=_copy_settings(home, target),
    )
    manifest.checksum = manifest.own_checksum()
    copier.check()
    _write_whole(target / MANIFEST_NAME, msgspec.json.encode(manifest) + b"\n")
    return manifest


def _opened(cut: Cut, piece: Piece) -> File:
    return piece.file or cut.store.disk.open(piece.name)


class Copier:
    """Copies files of a store in chunks, with their checksums."""

    def __init__(self, total: int, progress: Progress, cancelled: Event | None = None) -> None:
        self.total = total
        self.done = 0
        self.progress = progress
        self.cancelled = cancelled or Event()

    def copy(self, source: File, out: RealDisk, piece: Piece) -> Entry:
        """One file, synced."""
        digest, at = hashlib.sha256(), 0
        copied = out.open(piece.name, create=True)
        try:
            while at < piece.size:
                data = source.read(at, min(CHUNK, piece.size - at))
                if not data:
                    raise BackupRefused(f"{piece.name} has {at} bytes instead of {piece.size}")
                copied.write([data], at)
                digest.update(data)
                at += len(data)
                self._advance(len(data))
            copied.sync()
        finally:
            copied.close()
            source.close()
        return Entry(piece.name, piece.size, digest.hexdigest())

    def _advance(self, size: int) -> None:
        self.check()
        self.done += size
        self.progress(self.done, self.total)

    def check(self) -> None:
        """Ends a copy that is no longer wanted."""
        if self.cancelled.is_set():
            raise OperationCancelled("the backup was cancelled")


def _copy_settings(home: Path, target: Path) -> Entry | None:
    try:
        data = (home / SETTINGS_NAME).read_bytes()
    except FileNotFoundError:
        return None
    _write_whole(target / SETTINGS_NAME, data)
    return Entry(SETTINGS_NAME, len(data), hashlib.sha256(data).hexdigest())


def _write_whole(path: Path, data: bytes) -> None:
    """A small file that is there whole or not at all."""
    out = RealDisk(path.parent)
    temporary = f"{path.name}.tmp"
    try:
        file = out.open(temporary, create=True)
        try:
            file.write([data], 0)
            file.sync()
        finally:
            file.close()
        out.rename(temporary, path.name)
        out.sync_directory()
    finally:
        out.close()


# -- restore


class Restored(NamedTuple):
    """What a restore did."""

    manifest: Manifest
    messages: int
    lookup_ids_from: int
    message_ids_from: int
    sequence_timestamp: int
    lost_express: int
    closed: list[str]
    """What is sealed with a key that is not here."""
    opened: bool
    """The key that is here opens something: a home may have had two, one after the other."""
    missing: list[str]
    """Certificate files that the settings name, and that are not here."""

    def notes(self) -> list[str]:
        """Notes for the operator on what was restored."""
        notes = [
            f"{self.messages:,} messages of {self.manifest.name} as of {self.manifest.made}.",
            f"New lookup ids begin at {self.lookup_ids_from}, so that none is used twice.",
            f"New message ids begin at {self.message_ids_from}.",
            "Transactional messages to other computers begin new sequences: TxSequenceID.TimeStamp "
            f"is {self.sequence_timestamp} now.",
        ]
        if self.lost_express:
            notes.append(f"{self.lost_express:,} express messages were not in the backup.")
        if self.closed and self.opened:
            notes.append(
                f"!  {words_for(self.closed)} cannot be opened: another key than the {KEYS}/{SEAL} "
                "that is here has sealed them. Set these passwords again and make these keys again."
            )
        elif self.closed:
            notes.append(
                f"!  {words_for(self.closed)} cannot be opened without {KEYS}/{SEAL} of the home "
                "that was backed up, which no backup has. Put it into this home before the start."
            )
        if self.missing:
            notes.append(f"!  The settings name files that are not here: {', '.join(self.missing)}")
        if self.manifest.settings is None:
            notes.append(
                f"!  The home had no {SETTINGS_NAME}. A service has its settings in "
                "/etc/posthouse/posthouse.toml, which no backup has: copy that file, too."
            )
        return notes


def read_manifest(source: Path) -> Manifest:
    """The manifest of a backup, which has to be whole."""
    try:
        with (source / MANIFEST_NAME).open("rb") as file:
            data = file.read(MANIFEST_SIZE_MAX + 1)
        manifest = msgspec.json.decode(data, type=Manifest)
    except FileNotFoundError:
        raise BackupRefused(
            f"{source} has no {MANIFEST_NAME}", "It is not a backup, or one that was not finished."
        ) from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BackupRefused(f"{MANIFEST_NAME} is damaged: {error}") from None
    if manifest.format != FORMAT:
        raise BackupRefused(f"the backup has format {manifest.format}, this reads {FORMAT}")
    if manifest.checksum != manifest.own_checksum():
        raise BackupRefused(f"{MANIFEST_NAME} was changed", "Use another backup.")
    for entry in manifest.files:
        if not _STORE_FILE.fullmatch(entry.name) or entry.size < 0:
            raise BackupRefused(f"{MANIFEST_NAME} names a file that belongs to no store")
    return manifest


def restore(
    source: Path, home: Path, progress: Progress = _silent, keys: Path | None = None
) -> Restored:
    """Puts a backup into a home without a store; nothing is there until all of it is right.

    `keys` is the key file of the home that was backed up, which is put into this home.
    """
    manifest = read_manifest(source)
    key = None if keys is None else _given_key(keys)
    taken = Home(home)
    try:
        if (taken.path / STORE).exists() and any((taken.path / STORE).iterdir()):
            raise BackupRefused(f"{home} holds a store already", "Name a new home.")
        partial = taken.path / PARTIAL
        shutil.rmtree(partial, ignore_errors=True)  # of a restore that was cut off
        _copy_verified(source, manifest, partial, progress)
        kept = read_key(taken.path / KEYS / SEAL)
        if None not in (key, kept) and key != kept:
            raise BackupRefused(f"{home} has another {KEYS}/{SEAL}", "Name a new home.")
        restored = _renew(partial, manifest, key or kept)
        if key is not None and restored.closed and not restored.opened:
            raise BackupRefused(
                f"{keys} does not open {words_for(restored.closed)}",
                f"Name {KEYS}/{SEAL} of the home that was backed up.",
            )
        if key is not None and kept is None:
            keep_key(taken.path / KEYS / SEAL, key)
        _move_in(source, manifest, partial, taken.path)
        return restored._replace(missing=missing_files(taken.path))
    finally:
        taken.close()


def _given_key(file: Path) -> bytes:
    try:
        key = file.read_bytes()
    except OSError as error:
        raise BackupRefused(f"{file} cannot be read: {error.strerror or error}") from None
    if len(key) != SEALING_KEY_SIZE:
        raise BackupRefused(
            f"{file} is not a key file: it has {len(key):,} bytes, not {SEALING_KEY_SIZE}",
            f"Name {KEYS}/{SEAL} of the home that was backed up.",
        )
    return key


def missing_files(home: Path) -> list[str]:
    """Return the certificate files of the settings of a home that are not there."""
    try:
        settings = read_settings(home / SETTINGS_NAME, must_exist=False)
    except SettingsError:  # `serve` refuses them by name
        return []
    files = dict.fromkeys(file for use in tls_uses(settings, home) for file in use.files)
    return [str(file) for file in files if not file.exists()]


def _copy_verified(source: Path, manifest: Manifest, partial: Path, progress: Progress) -> None:
    copier = Copier(manifest.size, progress)
    given, out = RealDisk(source / STORE, read_only=True), RealDisk(partial)
    try:
        for entry in manifest.files:
            if not given.exists(entry.name) or given.size(entry.name) != entry.size:
                raise BackupRefused(f"{entry.name} is missing or has another size")
            piece = Piece(entry.name, entry.size)
            if copier.copy(given.open(entry.name), out, piece) != entry:
                raise BackupRefused(f"{entry.name} was changed", "Use another backup.")
        out.sync_directory()
    finally:
        given.close()
        out.close()


def _renew(partial: Path, manifest: Manifest, key: bytes | None) -> Restored:
    """Opens the copy once, so that what is given out from now on was never given out before."""
    store = LogStore(RealDisk(partial), StoreSettings())
    try:
        recovered = store.recover()
    except StoreError as error:
        raise BackupRefused(f"the store in the backup cannot be opened: {error}") from None
    manager = QueueManager(
        EngineSettings(manifest.name), recovered.state, store.read, os.urandom, store.read_many
    )
    driver = Driver(manager, store, real_clock)
    manager.start(*real_clock())
    driver.end_turn()
    try:
        if format_guid(manager.machine.identifier) != manifest.guid:
            raise BackupRefused("the store in the backup is another queue manager's")
        driver.run(renew_identifiers)
        sealed = list(manager.accounts.sealed_records())
        closed = closed_by(sealed, key)
        return Restored(
            manifest=manifest,
            messages=sum(queue.count for _, queue in manager.queues.states()),
            lookup_ids_from=manager.machine.next_lookup_id,
            message_ids_from=manager.machine.next_ordinal,
            sequence_timestamp=manager.machine.sequence_timestamp,
            lost_express=sum(recovered.lost_express.values()),
            closed=closed,
            opened=len(closed) < len({one.what for one in sealed}),
            missing=[],
        )
    finally:
        driver.close()


def renew_identifiers(manager: QueueManager) -> None:
    """A copy must not give again what the original may have given since (design.md 3)."""
    manager.machine.skip_identifiers(LOOKUP_IDS_RAISED, MESSAGE_IDS_RAISED)
    manager.machine.begin_sequences_again()
    manager.transfer.end_sequences()


def _move_in(source: Path, manifest: Manifest, partial: Path, home: Path) -> None:
    settings, kept = manifest.settings, home / SETTINGS_NAME
    if settings is not None and not kept.exists():
        data = (source / SETTINGS_NAME).read_bytes()
        if hashlib.sha256(data).hexdigest() != settings.sha256:
            raise BackupRefused(f"{SETTINGS_NAME} was changed", "Use another backup.")
        _write_whole(kept, data)
    if (home / STORE).exists():
        (home / STORE).rmdir()
    partial.rename(home / STORE)
    directory = RealDisk(home)
    try:
        directory.sync_directory()
    finally:
        directory.close()
