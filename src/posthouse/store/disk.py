"""Files and folders for the store: its only module that touches a file system.

The store uses `Disk` and `File` and nothing else of the operating system, so that the same code
runs on real files (`RealDisk`) and on the simulated disk of `posthouse.sim`, which forgets, tears
and fails on demand (design.md 4).
"""

import ctypes
import errno
import os
import stat
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview
"""Anything a gather write takes; a memoryview must be one of plain bytes."""

IOV_MAX = 1024  # Linux: more buffers than this in one call is EINVAL
KEPT_DESCRIPTORS = 4  # for the files that a running store opens: segment, index, checkpoint
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
# What a file system or a sandbox answers that does not have the call; EINTR: it was not begun.
_NOT_OFFERED = frozenset({errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ESPIPE, errno.EINTR})
_WRITE = 2  # SYNC_FILE_RANGE_WRITE: begin to write the changed pages, wait for nothing


def _system_call() -> Callable[[int, int, int, int], int] | None:
    """sync_file_range(2), which Python's `os` has not; None where the C library has not either."""
    try:
        call = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    call.restype = ctypes.c_int
    return call


_begin = _system_call()


def _require_offered(error: int) -> None:
    """Where a system does not have the call, the sync does all.

    Any other error is as final as that of a sync, a full disk too: what else was not synced may be
    lost with these bytes, so that it does not help to write them again.
    """
    if error not in _NOT_OFFERED:
        raise OSError(errno.EIO, os.strerror(error))


class File(Protocol):
    """One open file of a `Disk`. Positions are always given; a file has no place of its own."""

    @property
    def name(self) -> str:
        """The name the file was opened by; a later rename does not change it."""

    def size(self) -> int:
        """Length in bytes, unsynced writes included."""

    def write(self, buffers: Sequence[Buffer], offset: int, *, begin: bool = False) -> int:
        """Write all buffers one after the other at `offset`; bytes written.

        With `begin` the disk begins with them at once, for a `sync` that comes soon. Raises
        OSError; some first part may be in the file then.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only where the file ends."""

    def sync(self) -> None:
        """Return when content and length are on the disk.

        After an error nothing is known of what was written since the last good sync, and a second
        call proves nothing: the system may have forgotten the lost pages.
        """

    def truncate(self, size: int) -> None:
        """Cut to `size`, or grow to it with zeros."""

    def close(self) -> None:
        """Give the file back; closing twice is allowed. Nothing is synced by it."""


class Disk(Protocol):
    """One directory of plain files. Names have no slash."""

    def names(self) -> list[str]:
        """Names of all regular files, sorted."""

    def open(self, name: str, *, create: bool = False) -> File:
        """Open an existing file, or with `create` make a new, empty one that must not exist."""

    def exists(self, name: str) -> bool:
        """Whether there is a regular file of this name."""

    def size(self, name: str) -> int:
        """Length in bytes of a file that need not be open."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, atomically replacing whatever had it."""

    def unlink(self, name: str) -> None:
        """Remove a name; open files stay usable."""

    def sync_directory(self) -> None:
        """Return when every create, rename and unlink up to here is on the disk."""

    def free_space(self) -> tuple[int, int]:
        """Bytes we may still use, and all bytes of the file system."""

    def close(self) -> None:
        """Give the directory back; closing twice is allowed."""


class RealFile(File):
    """A `File` of the operating system. Safe to use from several threads at once."""

    def __init__(self, descriptor: int, name: str, read_only: bool) -> None:
        self._descriptor = descriptor
        self._name = name
        self._read_only = read_only

    @property
    def name(self) -> str:
        """The name the file was opened by."""
        return self._name

    def size(self) -> int:
        """Length in bytes, unsynced writes included."""
        return os.fstat(self._descriptor).st_size

    def write(self, buffers: Sequence[Buffer], offset: int, *, begin: bool = False) -> int:
        """Write all buffers one after the other at `offset`; bytes written."""
        if self._read_only:
            raise refused(self._name)
        assert offset >= 0, offset  # -1 would mean "at the current place" to the system
        position = offset
        try:
            for start in range(0, len(buffers), IOV_MAX):
                some = buffers[start : start + IOV_MAX]
                end = position + sum(map(len, some))
                position += os.pwritev(self._descriptor, some, position)
                if position < end:
                    position = self._write_rest(some, position, end)
            if begin and _begin is not None:
                size = position - offset
                if _begin(self._descriptor, offset, size, _WRITE):
                    _require_offered(ctypes.get_errno())
        except OSError as error:
            error.filename = self._name
            raise
        return position - offset

    def _write_rest(self, buffers: Sequence[Buffer], position: int, end: int) -> int:
        """The disk took a part of the buffers, up to `position`."""
        begun = end - sum(map(len, buffers))
        while position < end:
            rest = behind(buffers, position - begun)
            written = os.pwritev(self._descriptor, rest, position)
            if written == 0:
                raise OSError(errno.EIO, "the disk accepts no more bytes, without a reason")
            position += written
        return end

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only where the file ends."""
        assert offset >= 0, offset
        try:
            data = os.pread(self._descriptor, size, offset)
            while 0 < len(data) < size:
                more = os.pread(self._descriptor, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            error.filename = self._name
            raise
        return data

    def sync(self) -> None:
        """fdatasync: content and length, not the times."""
        if self._read_only:
            raise refused(self._name)
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            error.filename = self._name
            raise

    def truncate(self, size: int) -> None:
        """Cut to `size`, or grow to it with zeros."""
        if self._read_only:
            raise refused(self._name)
        assert size >= 0, size
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            error.filename = self._name
            raise

    def fileno(self) -> int:
        """The descriptor, for what needs one: sendfile, mmap, an advisory lock."""
        return self._descriptor

    def close(self) -> None:
        """Give the descriptor back."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class RealDisk(Disk):
    """A directory of the file system, made (0700) if it is not there.

    With `read_only` the directory must exist and every change is refused with EROFS, syncs
    included: `posthouse doctor` looks and does not touch.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only
        if not read_only:
            make_directory(self.path)
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._kept: list[int] = []
        weakref.finalize(self, _close_all, self._kept)  # also of a disk that was left open
        self._keep()

    def _keep(self) -> None:
        """Keeps descriptors back: the next segment opens also where the process has no more."""
        while not self.read_only and len(self._kept) < KEPT_DESCRIPTORS:
            try:
                self._kept.append(os.dup(self._descriptor))
            except OSError:
                return

    def names(self) -> list[str]:
        """Names of all regular files, sorted."""
        with os.scandir(self._descriptor) as entries:
            return sorted(e.name for e in entries if e.is_file(follow_symlinks=False))

    def open(self, name: str, *, create: bool = False) -> RealFile:
        """Open an existing file, or with `create` make a new one (0600)."""
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        if create:
            self._change(name)
            flags |= os.O_CREAT | os.O_EXCL
        flags |= os.O_RDONLY if self.read_only else os.O_RDWR
        return RealFile(self._open(plain(name), flags), name, self.read_only)

    def _open(self, name: str, flags: int) -> int:
        try:
            descriptor = os.open(name, flags, FILE_MODE, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR or not self._kept:
                raise
            os.close(self._kept.pop())
            return os.open(name, flags, FILE_MODE, dir_fd=self._descriptor)
        self._keep()
        return descriptor

    def exists(self, name: str) -> bool:
        """Whether there is a regular file of this name."""
        try:
            state = os.stat(plain(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return stat.S_ISREG(state.st_mode)

    def size(self, name: str) -> int:
        """Length in bytes of a file that need not be open."""
        return os.stat(plain(name), dir_fd=self._descriptor, follow_symlinks=False).st_size

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, atomically replacing whatever had it."""
        self._change(old)
        here = self._descriptor
        os.replace(plain(old), plain(new), src_dir_fd=here, dst_dir_fd=here)

    def unlink(self, name: str) -> None:
        """Remove a name; open files stay usable."""
        self._change(name)
        os.unlink(plain(name), dir_fd=self._descriptor)

    def sync_directory(self) -> None:
        """fsync of the directory itself."""
        self._change(str(self.path))
        os.fsync(self._descriptor)

    def free_space(self) -> tuple[int, int]:
        """Bytes an ordinary user may still use, and all bytes of the file system."""
        state = os.fstatvfs(self._descriptor)
        return state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize

    def fileno(self) -> int:
        """The directory's descriptor; a lock on it guards the whole store."""
        return self._descriptor

    def close(self) -> None:
        """Give the directory's descriptor back."""
        descriptor, self._descriptor = self._descriptor, -1
        _close_all(self._kept)
        if descriptor >= 0:
            os.close(descriptor)

    def _change(self, name: str) -> None:
        if self.read_only:
            raise refused(name)


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def plain(name: str) -> str:
    """The name, which must stay inside its directory: names are ours, so a bad one is a bug."""
    assert name not in ("", ".", ".."), name
    assert not {"/", "\0"} & set(name), name
    return name


def refused(name: str) -> OSError:
    """What every change on a read-only disk raises."""
    return OSError(errno.EROFS, os.strerror(errno.EROFS), name)


def behind(buffers: Sequence[Buffer], done: int) -> list[Buffer]:
    """What is left of the buffers when their first `done` bytes are gone."""
    for index, buffer in enumerate(buffers):
        if done < len(buffer):
            return [memoryview(buffer)[done:], *buffers[index + 1 :]]
        done -= len(buffer)
    return []


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, each one synced into its own parent."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(DIRECTORY_MODE, exist_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
