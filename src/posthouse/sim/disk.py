"""A disk in memory that loses, tears, fails and fills up, in the same way for each seed.

`SimDisk` is a `posthouse.store.disk.Disk`. It keeps apart what is synced and what is only
written; `crash()` gives the disk the machine would find when it comes up again. The rules of what
survives are in `posthouse.sim.simulated_file`. To replay a failure, build the disk with the seed
that was printed and make the same calls: nothing here depends on time, address or hash order.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random
from threading import RLock
from typing import Literal, NamedTuple, NoReturn

from posthouse.sim.faults import Fault, Faults, Kind, Operation, PowerLost
from posthouse.sim.simulated_file import FAVOURS, Change, Inode
from posthouse.store.disk import Buffer, Disk, File, plain, refused

Policy = Literal["nothing", "everything", "random"]
"""What a crash leaves of unsynced changes."""

CAPACITY = 1 << 40
GRAVES_MAX = 4  # removed files whose bytes may show up again in holes


class EntryChange(NamedTuple):
    """An unsynced change of the directory, and the file it was about."""

    number: int
    kind: Literal["create", "rename", "unlink"]
    name: str
    inode: Inode
    to: str = ""


class SimFile(File):
    """An open file of a `SimDisk`."""

    def __init__(self, disk: "SimDisk", name: str, inode: Inode) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._open = True
        inode.handles += 1

    @property
    def name(self) -> str:
        """The name the file was opened by."""
        return self._name

    def size(self) -> int:
        """Length in bytes, unsynced writes included."""
        return len(self._usable().live)

    def write(self, buffers: Sequence[Buffer], offset: int, *, begin: bool = False) -> int:
        """Write all buffers one after the other at `offset`; bytes written.

        To begin early changes nothing: a crash keeps any part of what is not synced.
        """
        assert offset >= 0, offset
        inode, data = self._usable(), b"".join(buffers)
        if data:
            self._disk._write(self._name, inode, offset, data)
        if begin:
            self._disk._begin(self._name, inode)
        return len(data)

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only where the file ends."""
        return self._disk._read(self._name, self._usable(), offset, size)

    def sync(self) -> None:
        """Make every write and length change of this file durable."""
        self._disk._sync(self._name, self._usable())

    def truncate(self, size: int) -> None:
        """Cut to `size`, or grow to it with zeros."""
        assert size >= 0, size
        self._disk._truncate(self._name, self._usable(), size)

    def close(self) -> None:
        """Give the file back; allowed after a crash too."""
        if self._open:
            self._open = False
            self._inode.handles -= 1
            self._disk._forget_orphans()

    def _usable(self) -> Inode:
        self._disk._check_power()
        if not self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._name)
        return self._inode


class SimDisk(Disk):
    """A simulated directory of files (design.md 4); every choice follows from `seed`.

    `calls` counts calls by kind, `operations` lists all but the reads in order, `on_operation`
    is called after each of them. Locked inside, so a writer thread may sync while a loop writes;
    only then the order of calls is no longer the seed's.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        capacity: int = CAPACITY,
        read_only: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.seed = seed
        self.capacity = capacity
        self.read_only = read_only
        self.operations: list[Operation] = []
        self.on_operation: Callable[[Operation], None] | None = None
        self._entries = {plain(name): Inode(data) for name, data in (files or {}).items()}
        self._durable_entries = dict(self._entries)
        self._entry_changes: list[EntryChange] = []
        self._orphans: list[Inode] = []
        self._graves: list[bytes] = []
        self._faults = Faults()
        self._foreign_bytes = 0
        self._number = 0
        self._crashes = 0
        self._off = False
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"SimDisk(seed={self.seed}, calls={self.calls['any']}, files={len(self._entries)})"

    # The contract of posthouse.store.disk.Disk

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        self._check_power()
        return sorted(self._entries)

    def open(self, name: str, *, create: bool = False) -> SimFile:
        """Open an existing file, or with `create` make a new, empty one."""
        if create:
            self._call(Operation("create", plain(name)), lambda: self._create(name))
        return SimFile(self, name, self._find(name))

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        self._check_power()
        return plain(name) in self._entries

    def size(self, name: str) -> int:
        """Length in bytes of a file that need not be open."""
        return len(self._find(name).live)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, atomically replacing whatever had it."""
        operation = Operation("rename", plain(old), to=plain(new))
        self._call(operation, lambda: self._rename(old, new))

    def unlink(self, name: str) -> None:
        """Remove a name; open files stay usable and keep their space."""
        self._call(Operation("unlink", plain(name)), lambda: self._unlink(name))

    def sync_directory(self) -> None:
        """Make every create, rename and unlink up to here durable."""
        self._call(Operation("sync_directory"), self._keep_entries, self._lose_entries)

    def free_space(self) -> tuple[int, int]:
        """Bytes still free, and the capacity."""
        self._check_power()
        return self._free(), self.capacity

    def close(self) -> None:
        """Nothing to give back."""

    # What a test asks for

    @property
    def calls(self) -> Counter[str]:
        """How often each kind was called; `any` counts all but the reads."""
        return self._faults.calls

    def fail_at(
        self, n: int, kind: Kind = "any", *, times: int = 1, error: int = errno.EIO
    ) -> None:
        """Let the n-th call of a kind from now on (1 is the next) raise, and `times - 1` more.

        A failed write has put some first part of its bytes into the file. After a failed sync the
        unsynced changes are partly lost, and the next sync succeeds without them.
        """
        self._faults.add(Fault(kind, n, n + times, error))

    def lose_power_at(self, n: int, kind: Kind = "any") -> None:
        """Switch the machine off during the n-th call of a kind from now on: `PowerLost`.

        That call's change may survive the crash; a sync has synced nothing yet.
        """
        self._faults.add(Fault(kind, n, n + 1, power=True))

    def fill_up(self, after_bytes: int = 0) -> None:
        """Let others use the disk up to `after_bytes` before its end; a larger number frees it."""
        self._foreign_bytes = self.capacity - self._used() - after_bytes

    def flip_bit(self, name: str, offset: int, bit: int) -> None:
        """Damage one bit on the disk, unnoticed."""
        assert 0 <= offset < len(self._find(name).live), offset
        self._find(name).damage(offset, 1 << bit)

    def cut(self, name: str, size: int) -> None:
        """Lose a file's bytes from `size` on, unnoticed."""
        self._find(name).cut(size)

    def note(self, text: str) -> None:
        """Put a mark among the operations, such as an answer that was given."""
        self.operations.append(Operation("note", text))

    def contents(self) -> dict[str, bytes]:
        """All files as a reader sees them now."""
        return {name: bytes(inode.live) for name, inode in sorted(self._entries.items())}

    def durable(self) -> dict[str, bytes]:
        """All files as the harshest crash would leave them."""
        return {name: bytes(inode.durable) for name, inode in sorted(self._durable_entries.items())}

    def pending(self) -> list[Operation]:
        """Changes that are not synced, oldest first; `crash(keep=...)` takes their places."""
        return [operation for _, operation in self._pending()]

    def clone(self) -> "SimDisk":
        """A copy of the disk with unsynced changes and planned faults, but no open files.

        Cheap: content is shared until one of the two changes it.
        """
        other = SimDisk(self.seed, capacity=self.capacity, read_only=self.read_only)
        other.operations = list(self.operations)
        other._faults = self._faults.copy()
        other._foreign_bytes, other._number = self._foreign_bytes, self._number
        other._crashes, other._off = self._crashes, self._off
        other._graves = list(self._graves)
        twins = {id(inode): inode.copy() for _, inode in self._named()}
        other._entries = {name: twins[id(inode)] for name, inode in self._entries.items()}
        other._durable_entries = {n: twins[id(i)] for n, i in self._durable_entries.items()}
        other._entry_changes = [c._replace(inode=twins[id(c.inode)]) for c in self._entry_changes]
        return other

    def crash(
        self,
        policy: Policy = "nothing",
        *,
        keep: Collection[int] | None = None,
        torn: Mapping[int, int] | None = None,
        seed: int | None = None,
    ) -> "SimDisk":
        """Switch the machine off and give the disk it finds when it is on again.

        `policy` states what becomes of unsynced changes. With `keep` and `torn` exactly the named
        places of `pending()` survive: whole, or (torn) only their first this many bytes. This disk
        and its files raise `PowerLost` from now on; another `crash()` of it gives another disk.
        """
        self._off = True
        self._crashes += 1
        label = f"{self.seed}/crash/{self._crashes}" if seed is None else f"{seed}/crash"
        chance = Random(label)
        if keep is None and torn is None:
            entries = self._surviving_entries(policy, chance)
            found = {n: self._survivor(inode, policy, chance) for n, inode in entries.items()}
        else:
            sizes = self._sizes(keep or (), torn or {})
            entries = self._replayed(lambda change: change.number in sizes)
            found = {n: Inode(inode.kept(sizes)) for n, inode in entries.items()}
        return self._found(found, chance.getrandbits(63))

    # How a crash chooses

    def _pending(self) -> list[tuple[Change | EntryChange, Operation]]:
        changes: list[tuple[Change | EntryChange, Operation]] = [
            (change, described(name, change))
            for name, inode in self._named()
            for change in inode.changes
        ]
        changes += [(c, Operation(c.kind, c.name, to=c.to)) for c in self._entry_changes]
        return sorted(changes, key=lambda pair: pair[0].number)

    def _named(self) -> Collection[tuple[str, Inode]]:
        """Every file that can still matter, each once, by its latest name."""
        named = {id(c.inode): (c.to or c.name, c.inode) for c in self._entry_changes}
        named |= {id(inode): (name, inode) for name, inode in self._durable_entries.items()}
        named |= {id(inode): (name, inode) for name, inode in self._entries.items()}
        return named.values()

    def _sizes(self, keep: Collection[int], torn: Mapping[int, int]) -> dict[int, int]:
        numbers = [change.number for change, _ in self._pending()]
        whole = {numbers[place]: self.capacity for place in keep}
        return whole | {numbers[place]: size for place, size in torn.items()}

    def _surviving_entries(self, policy: Policy, chance: Random) -> dict[str, Inode]:
        favours = {"nothing": 0.0, "everything": 1.0, "random": chance.choice(FAVOURS)}
        return self._replayed(lambda change: chance.random() < favours[policy])

    def _replayed(self, survives: Callable[[EntryChange], bool]) -> dict[str, Inode]:
        entries = dict(self._durable_entries)
        for change in self._entry_changes:
            if survives(change):
                replay(entries, change)
        return entries

    def _survivor(self, inode: Inode, policy: Policy, chance: Random) -> Inode:
        if policy == "random" and inode.changes:
            return Inode(inode.survivor(chance, self._stale(chance)))
        if policy == "everything" and inode.changes:
            return Inode(inode.everything())
        return inode.synced_copy()

    def _stale(self, chance: Random) -> bytes:
        return chance.choice(self._graves) if self._graves else b""

    def _found(self, entries: dict[str, Inode], seed: int) -> "SimDisk":
        other = SimDisk(seed, capacity=self.capacity)
        other._entries = entries
        other._durable_entries = dict(entries)
        other._graves = list(self._graves)
        other._foreign_bytes = self._foreign_bytes
        return other

    # How a call goes

    def _call(
        self, operation: Operation, act: Callable[[], None], spoil: Callable[[], None] | None = None
    ) -> None:
        with self._lock:
            self._check_power()
            if self.read_only:
                raise refused(operation.name)
            try:
                self._meet(operation, act, spoil)
            except OSError as error:
                self.operations.append(operation._replace(error=error.errno or errno.EIO))
                raise
            self.operations.append(operation)
        if self.on_operation is not None:
            self.on_operation(operation)

    def _meet(
        self, operation: Operation, act: Callable[[], None], spoil: Callable[[], None] | None
    ) -> None:
        fault = self._faults.count(operation.kind)
        if fault is None:
            act()
        elif fault.power:
            if operation.kind not in ("sync", "sync_directory"):
                act()
            self._fail(fault, operation.name)
        else:
            if spoil is not None:
                spoil()
            self._fail(fault, operation.name)

    def _fail(self, fault: Fault, name: str) -> NoReturn:
        if fault.power:
            self._off = True
            raise PowerLost(f"the power went at {fault.kind} {name!r}")
        raise OSError(fault.error, os.strerror(fault.error), name)

    def _check_power(self) -> None:
        if self._off:
            raise PowerLost("this disk has crashed; go on with what crash() returned")

    def _chance(self, label: str) -> Random:
        return Random(f"{self.seed}/{label}/{self.calls['any']}/{self.calls['read']}")

    def _find(self, name: str) -> Inode:
        self._check_power()
        inode = self._entries.get(plain(name))
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return inode

    def _next(self) -> int:
        self._number += 1
        return self._number

    # Files

    def _write(self, name: str, inode: Inode, offset: int, data: bytes) -> None:
        def act() -> None:
            room = len(inode.live) + max(0, self._free())
            inode.write(self._next(), offset, data[: max(0, room - offset)])
            if offset + len(data) > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

        def spoil() -> None:
            part = self._chance("write").randint(0, len(data))
            inode.write(self._next(), offset, data[:part])

        self._call(Operation("write", name, offset, len(data)), act, spoil)

    def _read(self, name: str, inode: Inode, offset: int, size: int) -> bytes:
        assert min(offset, size) >= 0, (offset, size)
        with self._lock:
            fault = self._faults.count("read")
            if fault is not None:
                self._fail(fault, name)
            return bytes(inode.live[offset : offset + size])

    def _begin(self, name: str, inode: Inode) -> None:
        with self._lock:
            fault = self._faults.count("begin")
            if fault is not None:
                self._spoil("begin", inode)
                self.operations.append(Operation("begin", name, error=errno.EIO))
                if fault.power:
                    self._fail(fault, name)
                raise OSError(errno.EIO, os.strerror(fault.error), name)

    def _sync(self, name: str, inode: Inode) -> None:
        spoil = partial(self._spoil, "sync", inode)
        self._call(Operation("sync", name), inode.sync, spoil)

    def _spoil(self, label: str, inode: Inode) -> None:
        chance = self._chance(label)
        inode.fail_sync(chance, self._stale(chance))

    def _truncate(self, name: str, inode: Inode, size: int) -> None:
        def act() -> None:
            if size - len(inode.live) > max(0, self._free()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
            inode.truncate(self._next(), size)

        self._call(Operation("truncate", name, size=size), act)

    def _used(self) -> int:
        return sum(len(inode.live) for inode in [*self._entries.values(), *self._orphans])

    def _free(self) -> int:
        return self.capacity - self._foreign_bytes - self._used()

    # The directory

    def _create(self, name: str) -> None:
        if name in self._entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if self._free() <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        self._change(EntryChange(self._next(), "create", name, Inode()))

    def _rename(self, old: str, new: str) -> None:
        inode = self._find(old)
        if old != new:
            self._bury(self._entries.get(new))
            self._change(EntryChange(self._next(), "rename", old, inode, new))

    def _unlink(self, name: str) -> None:
        inode = self._find(name)
        self._bury(inode)
        self._change(EntryChange(self._next(), "unlink", name, inode))

    def _change(self, change: EntryChange) -> None:
        replay(self._entries, change)
        self._entry_changes.append(change)

    def _bury(self, inode: Inode | None) -> None:
        if inode is None:
            return
        self._graves = [*self._graves, bytes(inode.live)][-GRAVES_MAX:]
        if inode.handles:
            self._orphans.append(inode)

    def _forget_orphans(self) -> None:
        self._orphans = [inode for inode in self._orphans if inode.handles]

    def _keep_entries(self) -> None:
        self._durable_entries = self._replayed(lambda change: True)
        self._entry_changes.clear()

    def _lose_entries(self) -> None:
        chance = self._chance("sync_directory")
        self._durable_entries = self._surviving_entries("random", chance)
        self._entry_changes.clear()


def replay(entries: dict[str, Inode], change: EntryChange) -> None:
    """Carry out one change of a directory, on its own file only."""
    if change.kind != "create" and entries.get(change.name) is change.inode:
        del entries[change.name]
    if change.kind != "unlink":
        entries[change.to or change.name] = change.inode


def described(name: str, change: Change) -> Operation:
    """An unsynced change of a file as an operation."""
    if change.data is None:
        return Operation("truncate", name, size=change.offset)
    return Operation("write", name, change.offset, len(change.data))
