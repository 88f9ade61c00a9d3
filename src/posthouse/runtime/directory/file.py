"""A directory that several queue managers share as one file: the document that exports write.

A writer holds a lock on a file beside it, and replaces it as a whole; a reader sees one version or
the next. A file that cannot be read or understood is an authority that is away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from posthouse.directory.authority import AuthorityAway, Changes, Refused
from posthouse.directory.base import DirectoryOperationResult, equals
from posthouse.directory.change_merging import rebased
from posthouse.directory.document.document import Holdings, described, objects_of
from posthouse.directory.document.text import parse_document, written
from posthouse.directory.embedded import EmbeddedDirectory
from posthouse.directory.mirror import Action, Order, Stored
from posthouse.directory.objects import DirectoryObject, Entry
from posthouse.directory.settings import DirectorySettings
from posthouse.model.errors import QueueError, RemoteProtocolError

FILE_SIZE_MAX: Final = 64 << 20
_LOCK_PAUSE_S: Final = 0.02
_SETTLE_S: Final = 0.05
_SETTLE_TRIES: Final = 20
_SUCCESS = DirectoryOperationResult.SUCCESS
_ERROR = DirectoryOperationResult.GENERIC_ERROR
_EXISTS = DirectoryOperationResult.OBJECT_ALREADY_EXISTS

_Key = tuple[type[DirectoryObject], bytes]


class _Stamp(NamedTuple):
    """What differs between two versions of a file, found without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int


def _stamp_of(found: os.stat_result) -> _Stamp:
    return _Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class _Book(EmbeddedDirectory):
    """The objects of the file, with the rules of a directory for changes."""

    def fill(self, values: Iterable[DirectoryObject]) -> None:
        """The objects of the file; paths follow from names."""
        for value in values:
            paths = {k: v for k, v in self._paths(value).items() if k in value.__struct_fields__}
            whole: Any = msgspec.structs.replace(value, **paths)
            self._keep(Entry(whole, whole.directory_attributes()))

    def values(self) -> dict[_Key, DirectoryObject]:
        """All objects, by kind and identifier."""
        return {
            (kind, identifier): entry.value
            for kind, entries in self._objects.items()
            for identifier, entry in entries.items()
        }


class FileAuthority:
    """The `Authority` that is a TOML file; `new_guid` names new objects."""

    def __init__(
        self,
        path: Path,
        new_guid: Callable[[], bytes],
        lock_wait_s: float = DirectorySettings().lock_wait_s,
    ) -> None:
        self.path = path.absolute()
        self._new_guid = new_guid
        self._lock_wait_s = lock_wait_s
        self._stamp: _Stamp | None = None
        self._fault = ""  # of the file with that stamp
        self._known: dict[_Key, DirectoryObject] = {}
        self._touched: set[_Key] = set()  # by us, since the file was read
        self._version = 0

    # -- reading

    def changes(self, token: str) -> Changes:
        """The changes of the file since the token was given out."""
        before, version = self._known, self._version
        self._look()
        touched, self._touched = self._touched, set()
        now = str(self._version)
        if not token or token != str(version):
            return Changes(list(self._known.values()), [], True, now)
        if self._version == version:
            return Changes([], [], False, now)
        changed = [
            value
            for key, value in self._known.items()
            if key in touched or before.get(key) != value
        ]
        gone = [key for key in {**before, **dict.fromkeys(touched)} if key not in self._known]
        return Changes(changed, gone, False, now)

    def _look(self) -> None:
        """Reads the file where it is another one than last time."""
        stamp, text = self._read()
        if stamp == self._stamp:
            if self._fault:
                raise AuthorityAway(self._fault)
            return
        self._stamp = stamp
        try:
            self._known = self._understood(text).values()
        except AuthorityAway as fault:
            self._fault = str(fault)
            raise
        self._fault = ""
        self._version += 1

    def _read(self) -> tuple[_Stamp, str]:
        """The version of the file, and its text where that version is new."""
        try:
            stamp, data = self._settled()
        except FileNotFoundError:
            raise AuthorityAway(
                f"{self.path} does not exist; `posthouse directory export {self.path}` creates it"
            ) from None
        except OSError as error:
            raise AuthorityAway(f"{self.path} cannot be read: {error.strerror or error}") from None
        if len(data) > FILE_SIZE_MAX:
            raise AuthorityAway(f"{self.path} has more than {FILE_SIZE_MAX >> 20} MiB")
        try:
            return stamp, data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise AuthorityAway(f"{self.path}, line {line}: this is not UTF-8") from None

    def _settled(self) -> tuple[_Stamp, bytes]:
        """A version that is not being written: half a file would be half a directory.

        One that was renamed into its place is whole. Else it has to stay as it is for a moment.
        """
        for _ in range(_SETTLE_TRIES):
            stamp, data, is_renamed = self._read_once()
            if stamp == self._stamp or is_renamed:
                return stamp, data
            time.sleep(_SETTLE_S)
            if _stamp_of(self.path.stat()) == stamp:
                return stamp, data
        raise AuthorityAway(f"{self.path} is being written by another process")

    def _read_once(self) -> tuple[_Stamp, bytes, bool]:
        # A pipe would keep us until somebody writes into it.
        handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise AuthorityAway(f"{self.path} is not a file")
            stamp = _stamp_of(found)
            data = b"" if stamp == self._stamp else file.read(FILE_SIZE_MAX + 1)
        return stamp, data, found.st_ctime_ns > found.st_mtime_ns

    def _understood(self, text: str) -> _Book:
        book = _Book(lambda key, value: None, self._new_guid)
        try:
            book.fill(objects_of(parse_document(text, str(self.path))))
        except QueueError as error:
            where = "" if str(self.path) in error.cause else f"{self.path}: "
            raise AuthorityAway(f"{where}{error.cause}") from None
        return book

    # -- changing

    def together(self, orders: Sequence[Order]) -> Stored:
        """All of them in one new version of the file, or none."""
        with self._locked():
            # Somebody may have edited it in place, within the grain of the clock.
            self._stamp = None
            _, text = self._read()
            book = self._understood(text)
            stored = [_carried_out(book, order) for order in orders]
            self._replace(written(described(Holdings.of(book.values().values()))))
        self._touched.update((type(value), value.identifier) for value in stored)
        return stored

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """The lock that everybody takes who changes the file."""
        with contextlib.ExitStack() as held:
            try:
                self._take_lock(held)
            except OSError as error:
                raise Refused(
                    _ERROR, f"{self.path} cannot be locked: {error.strerror or error}"
                ) from None
            yield

    def _take_lock(self, held: contextlib.ExitStack) -> None:
        target = Path(os.path.realpath(self.path))
        place = target.with_name(target.name + ".lock")
        until = time.monotonic() + self._lock_wait_s
        while True:
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o660)
            held.callback(os.close, handle)
            with contextlib.suppress(OSError):  # who may change the file may lock it
                _take_over(handle, target.stat())
            self._wait_for(handle, until)
            if _is_at(handle, place):
                return
            held.close()  # somebody took it away: others have another one

    def _wait_for(self, handle: int, until: float) -> None:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise AuthorityAway(
                        f"{self.path} has been locked by another process for "
                        f"{self._lock_wait_s:.0f} seconds"
                    ) from None
            time.sleep(_LOCK_PAUSE_S)

    def _replace(self, text: str) -> None:
        """A whole new file, durable before it has the name."""
        target = Path(os.path.realpath(self.path))
        temporary = target.with_name(f".{target.name}.new")
        try:
            temporary.unlink(missing_ok=True)  # of one that was killed
            with open(temporary, "x", encoding="utf-8", newline="\n") as file:
                _take_over(file.fileno(), target.stat())
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            _sync_folder(target.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise Refused(
                _ERROR, f"{self.path} cannot be written: {error.strerror or error}"
            ) from None

    def close(self) -> None:
        """Nothing stays open between calls."""


def _carried_out(book: _Book, order: Order) -> DirectoryObject:
    action, value, utc_s, attributes, base = order
    present = book.known(type(value), equals("identifier", value.identifier))
    try:
        if action is Action.DELETE:
            status = book.delete(value)
        elif action is Action.WRITE:
            if present is not None:
                value = rebased(value, base, present)
            status = book.write(value, utc_s, attributes)
        else:
            status, identifier = book.create(value, utc_s, attributes)
            value = msgspec.structs.replace(value, identifier=identifier)
    except (QueueError, RemoteProtocolError) as error:
        raise Refused(_ERROR, str(getattr(error, "cause", error))) from None
    if status is not _SUCCESS:
        title = f"{type(value).__name__} {value.unique_name}"
        words = "the file has another one" if status is _EXISTS else status.value
        raise Refused(status, f"{title}: {words}")
    known = book.known(type(value), equals("identifier", value.identifier))
    return value if known is None else known


def _is_at(handle: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), place.stat())
    except FileNotFoundError:
        return False


def _take_over(handle: int, model: os.stat_result) -> None:
    """Gives a file the owner, where we may, the group and the rights of another one.

    Without its group, users who share the file through the group could no longer read it.
    """
    own = os.fstat(handle)
    if (own.st_uid, own.st_gid) != (model.st_uid, model.st_gid):
        try:
            os.fchown(handle, model.st_uid, model.st_gid)
        except PermissionError:
            members = model.st_mode >> 3 & ~model.st_mode & 7  # what the group may and others not
            if own.st_gid != model.st_gid and members:
                os.fchown(handle, -1, model.st_gid)
    if stat.S_IMODE(os.fstat(handle).st_mode) != stat.S_IMODE(model.st_mode) & 0o777:
        os.fchmod(handle, stat.S_IMODE(model.st_mode) & 0o777)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
