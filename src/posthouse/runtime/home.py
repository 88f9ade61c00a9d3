"""A home: the folder of one queue manager, locked by one process at a time."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from posthouse.engine.ledger.effects import Event
from posthouse.engine.ledger.state import State
from posthouse.engine.machine.computer_name import chosen_name
from posthouse.engine.machine.identity import (
    COPIED_REMEDY,
    HostIdentity,
    host_change,
    kept_record,
)
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import InvalidParameter, ServiceNotAvailable
from posthouse.runtime.driver import Driver
from posthouse.runtime.key_file import KEYS, KeyFile
from posthouse.runtime.ports import PortSet, own_ports
from posthouse.runtime.settings.file import SETTINGS_NAME
from posthouse.runtime.settings.settings import Settings
from posthouse.store.base import Recovered
from posthouse.store.disk import RealDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings

HOME_MODE = 0o700
MACHINE_ID = Path("/etc/machine-id")
STORE = "store"  # the store's folder in a home
BEFORE_THE_FIRST_START = frozenset({KEYS, "lost+found"})


def real_clock() -> tuple[int, int]:
    """Monotonic milliseconds and UTC seconds of this machine."""
    return time.monotonic_ns() // 1_000_000, int(time.time())


def local_offset_s(utc: int) -> int:
    """How far the clock on this machine's wall is ahead of UTC."""
    return time.localtime(utc).tm_gmtoff


def lock_home(home: Path) -> int:
    """Takes a home for this process; the lock goes with the returned descriptor."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ServiceNotAvailable(
            f"the home {home} is in use by another queue manager",
            "Stop the other process, or name another home.",
        ) from None
    return handle


def host_name() -> str:
    """The computer name where none is set: the host's, without its domain."""
    return socket.gethostname().partition(".")[0]


def host_identity(store: Path, machine_id: Path) -> str:
    """This computer and the place of a store: a copy of the folder has another inode."""
    try:
        known = machine_id.read_text("ascii", "replace").strip()
    except OSError:  # many images of containers have none
        known = ""
    computer = sha256(b"posthouse" + known.encode()).hexdigest()[:16] if known else ""
    return HostIdentity(computer, str(store.stat().st_ino)).text()


def check_host(state: State, host: str, settings: EngineSettings) -> None:
    """Refuses a home that was moved or copied, where the settings want that."""
    kept = kept_record(state)
    why = "" if kept is None else host_change(kept.host, host)
    if why and settings.queue_manager.host_changed == "refuse":
        raise InvalidParameter(
            f"{why} ([queue_manager] host_changed is `refuse`)",
            f"{COPIED_REMEDY} If this is the only one, start it once with host_changed `warn`.",
        )


class Home:
    """A home that this process has taken; `close` gives it back."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = lock_home(self.path)
        try:
            check_folder(self.path)
            self.narrowed = make_private(self.path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Another process may have it now."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def check_folder(path: Path) -> None:
    """Refuses a folder of something else: a home is closed to others, `/tmp` must not be."""
    names = set(os.listdir(path))  # noqa: PTH208 - the names alone
    mode = path.stat().st_mode
    if mode & stat.S_ISVTX and mode & stat.S_IWOTH:  # closing it would stop other programs
        raise InvalidParameter(
            f"{path} is a folder that all users share, and a home is closed to them",
            "Name a new folder.",
        )
    is_wide = mode & 0o077 != 0  # `chmod 700` leaves other bits as they are
    if is_wide and not names & {STORE, SETTINGS_NAME} and names - BEFORE_THE_FIRST_START:
        raise InvalidParameter(
            f"{path} is not a home: it holds {min(names - BEFORE_THE_FIRST_START)!r}, others may "
            "use it, and a home is closed to them",
            "Name a new folder.",
        )


def make_private(path: Path) -> bool:
    """Takes everybody else's rights on a home away; True if there were any."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise ServiceNotAvailable(
            f"the home {path} belongs to another user", "Run as its owner, or name another home."
        )
    wide = stat.S_IMODE(found.st_mode) & ~HOME_MODE != 0
    if wide:
        path.chmod(HOME_MODE)
    return wide


class Started(NamedTuple):
    """A queue manager that runs on the store of a home."""

    store: LogStore
    recovered: Recovered
    manager: QueueManager
    driver: Driver


def engine_settings(settings: Settings, name: str, ports: PortSet) -> EngineSettings:
    """The sections that the engine reads, and who it is."""
    return EngineSettings(
        name,
        queue_manager=settings.queue_manager,
        directory=settings.directory,
        transactions=settings.transactions,
        limits=settings.limits,
        binary=settings.binary,
        srmp=settings.srmp,
        qms=settings.qms,
        ports=own_ports(ports),
    )


def start_manager(
    home: Home,
    settings: EngineSettings,
    store_settings: StoreSettings,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Started:
    """Opens the store and starts the engine on it; what it appended is synced.

    The computer name of the settings is the one that is wanted; empty: the one that is kept.
    """
    store = LogStore(RealDisk(home.path / STORE), store_settings)
    recovered = store.recover()
    try:
        name = chosen_name(recovered.state, settings.computer_name, host_name(), str(home.path))
        host = host_identity(home.path / STORE, MACHINE_ID)
        check_host(recovered.state, host, settings)
    except InvalidParameter:
        store.close()  # as it was found: express messages are kept
        raise
    settings = replace(settings, computer_name=name, host=host)
    manager = QueueManager(settings, recovered.state, store.read, os.urandom, store.read_many)
    manager.certificates.key_file = KeyFile(home.path, manager.accounts.sealed_records)
    if settings.qms.local_clock:
        manager.jobs.utc_offset_s = local_offset_s
    driver = Driver(manager, store, real_clock)
    driver.on_event = on_event
    manager.start(*real_clock())
    driver.end_turn()
    driver.sync()
    return Started(store, recovered, manager, driver)
