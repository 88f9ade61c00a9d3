"""`posthouse serve`: a home, the engine on it, the loop, and the endpoints; start, wait, stop.

Doors are the listeners; `posthouse.runtime.endpoints` has the list of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from posthouse.engine.ledger.effects import Event
from posthouse.engine.settings import name_fault
from posthouse.model.guids import format_guid
from posthouse.model.settings_kinds import is_address
from posthouse.net.connections import Connections, Room
from posthouse.protocols.memory import MemoryAccount
from posthouse.runtime.addresses import AddressWatch, local_addresses
from posthouse.runtime.certificates import CertificateWatch
from posthouse.runtime.directory.authority import (
    FollowedDirectory,
    open_authority,
    tell_addresses,
)
from posthouse.runtime.garbage_collection import CollectInTime, collect_in_small_steps
from posthouse.runtime.home import Home, Started, engine_settings, start_manager
from posthouse.runtime.limits import (
    MemoryRelease,
    keep_memory,
    keep_private,
    raise_file_limit,
    switch_soon,
)
from posthouse.runtime.listen_errors import NotStarted as NotStarted
from posthouse.runtime.listen_errors import cannot_listen
from posthouse.runtime.logs import Log, LogFile, LogStream, place_of
from posthouse.runtime.loop import Loop
from posthouse.runtime.loop_turns import SlowTurn
from posthouse.runtime.machine_keys import add_signing_keys
from posthouse.runtime.peer_calls import Coordination
from posthouse.runtime.ports import PortSet
from posthouse.runtime.settings.file import (
    SETTINGS_NAME,
    SettingsError,
    read_settings,
)
from posthouse.runtime.settings.settings import Settings
from posthouse.runtime.start_checks import peer_url
from posthouse.runtime.systemd_notify import Notifier, keep_telling
from posthouse.store.errors import StoreError

LOCAL_MAX = 1_000  # connections of the control socket
MEMORY_LOOK_S = 2.5  # while large packets are read: how often slow ones are looked for
MEMORY_LOG_S = 60.0  # in which it is logged once that memory is short, and that it is enough
STOPPED, FAILED = 0, 1
_WARNINGS = frozenset(
    {
        "clock_step",
        "damage_accepted",
        "damage_undecided",
        "directory_away",
        "directory_object_unusable",
        "directory_queue_doubled",
        "directory_queue_refused",
        "directory_refused",
        "flow_control_begins",
        "host_changed",
        "message_damaged",
        "message_unreadable",
        "name_not_ours",
        "peer_not_reached",
    }
)


class Door(Protocol):
    """A listener. What it needs it got when it was made."""

    @property
    def name(self) -> str:
        """The endpoint's name in the ready file."""

    async def start(self, host: str, port: int) -> str:
        """Accepts from now on; returns the address that clients use. Port 0: any.

        Empty: it does without its port, and has said so in the log.
        """

    async def stop(self, deadline_s: float) -> None:
        """Accepts nothing more and reads no new request; returns when those begun are answered,
        at the latest after this many seconds. Whatever is open then is closed."""


class DoorAddress(NamedTuple):
    """A door and where it listens; the control socket has a path for a host."""

    door: Door
    host: str
    port: int


class Options(NamedTuple):
    """Options of the command line; None: the settings decide."""

    home: Path
    config: Path | None = None
    name: str | None = None
    listen: str | None = None
    ports: PortSet | None = None
    ready_file: Path | None = None
    version: str = ""
    tell: Callable[[dict[str, object]], None] | None = None  # gets the content of the ready file


class Service(NamedTuple):
    """What every endpoint needs: home, settings, engine, loop and logs."""

    home: Path
    name: str
    version: str
    host: str
    ports: PortSet
    settings: Settings
    desk: Loop
    started: Started
    log: Log
    memory: MemoryAccount
    room: Room
    tls_files: CertificateWatch
    at_end: list[Callable[[], None]]  # what blocks for a moment, once all doors are closed
    directory: FollowedDirectory | None = None

    def connections(self) -> Connections:
        """The counter of a new listener."""
        limits = self.settings.limits
        return Connections(limits.connections_max, limits.connections_per_address_max, self.room)

    def local_connections(self) -> Connections:
        """The counter of the control socket, whose descriptors are reserved."""
        most = min(self.settings.limits.connections_max, _local_share(self.room.limit))
        return Connections(most, most)


Doors = Callable[[Service], list[DoorAddress]]


class Outcome(NamedTuple):
    """How a run ended."""

    code: int
    cause: str = ""


def run(options: Options, doors: Doors) -> Outcome:
    """Serves until a signal or a failure ends it.

    Raises SettingsError, QueueError (the home is taken), StoreError or NotStarted before that.
    """
    settings = effective_settings(options)
    keep_private()
    keep_memory()
    switch_soon()
    home = Home(options.home)
    try:
        log = open_log(settings, home.path)
        try:
            return _run_in(home, options, settings, log, doors)
        finally:
            log.close()
    finally:
        home.close()


def effective_settings(options: Options) -> Settings:
    """The settings of the file with what the command line changes."""
    path = options.config or options.home / SETTINGS_NAME
    settings = read_settings(path, must_exist=options.config is not None)
    machine = settings.queue_manager
    changed = msgspec.structs.replace(
        machine,
        name=options.name or machine.name,  # empty: the one that the home keeps
        listen=options.listen or machine.listen,
        ports=(options.ports or PortSet(machine.ports)).value,
    )
    if changed.name and (fault := name_fault(changed.name)):
        raise SettingsError("--name", [fault])
    if not is_address(changed.listen):
        raise SettingsError("--listen", ["this is not an address; allowed: an IP address"])
    return msgspec.structs.replace(settings, queue_manager=changed)


def open_log(settings: Settings, home: Path) -> Log:
    """The log that the settings describe."""
    section = settings.log
    target: LogFile | LogStream = LogStream()
    if section.file:
        path = home / section.file
        try:
            target = LogFile(path, section.size_max, section.files_kept)
        except OSError as error:
            raise NotStarted(
                f"[log] file: {path} cannot be written: {error.strerror or error}"
            ) from None
    return Log(target, level=section.level, format=section.format, repeats_max=section.repeats_max)


def _run_in(home: Home, options: Options, settings: Settings, log: Log, doors: Doors) -> Outcome:
    listeners = 1 + settings.binary.enabled + 2 * settings.rpc.enabled + settings.ncp.enabled
    listeners += settings.http.enabled
    limit = raise_file_limit(listeners * settings.limits.connections_max, settings.store.open_files)
    room = Room(limit.for_connections - _local_share(limit.for_connections))
    if not limit.enough:
        log.warning(
            "few_files_allowed",
            allowed=limit.allowed,
            wanted=limit.wanted,
            connections=room.limit,
            remedy="raise LimitNOFILE of the service, or lower [limits] connections_max",
        )
    if home.narrowed:
        log.warning("home_was_open_to_others", home=home.path)
    ports = PortSet(settings.queue_manager.ports)
    engine = engine_settings(settings, settings.queue_manager.name, ports)
    engine = replace(
        engine,
        interfaces=local_addresses(),
        software_version=options.version,
        operating_system_version=f"{platform.system()} {platform.release()}",
    )
    try:
        started = start_manager(
            home,
            engine,
            msgspec.structs.replace(settings.store, store_id=os.urandom(16)),
            event_writer(log),
        )
    except Exception as error:
        log.error("not_started", cause=error)
        raise
    _log_recovery(log, started)
    machine = msgspec.structs.replace(
        settings.queue_manager, name=started.manager.machine.settings.computer_name
    )
    settings = msgspec.structs.replace(settings, queue_manager=machine)
    started.manager.certificates.configure(settings.security)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(Server(home, options, settings, started, log, room).serve(doors))


def _local_share(descriptors: int) -> int:
    """Of the descriptors for connections, those of the control socket."""
    return max(16, min(LOCAL_MAX, descriptors // 8))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def event_writer(log: Log) -> Callable[[Event], None]:
    """Makes a log line of each event."""

    def write(event: Event) -> None:
        level = log.warning if event.name in _WARNINGS else log.info
        level(event.name, **event.details)

    return write


def _log_recovery(log: Log, started: Started) -> None:
    recovered = started.recovered
    if recovered.new:
        log.info("store_created")
    else:
        log.info("recovered", clean=recovered.clean, torn_bytes=recovered.torn_bytes)
    if recovered.lost_express:
        log.warning("express_messages_lost", count=sum(recovered.lost_express.values()))
    for note in started.store.notes:
        log.warning("store_note", note=note)


class Server:
    """One run: from the engine's start to the end of the process."""

    def __init__(
        self,
        home: Home,
        options: Options,
        settings: Settings,
        started: Started,
        log: Log,
        room: Room,
    ) -> None:
        self.room = room
        self.home = home
        self.options = options
        self.settings = settings
        self.started = started
        self.log = log
        self.notifier = Notifier()
        self.endpoints: dict[str, str] = {}
        self._places: list[DoorAddress] = []
        self._failure: BaseException | None = None
        self._coordination: Coordination | None = None
        self._directory: FollowedDirectory | None = None
        self._damage_told = False
        self._addresses: AddressWatch | None = None
        self._at_end: list[Callable[[], None]] = []

    async def serve(self, doors: Doors) -> Outcome:
        """Starts the doors, waits for the end, and stops everything in order."""
        loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        loop.set_exception_handler(self._internal_error)
        self._listen_to_signals(loop)
        self.log.later = loop.call_later
        self.desk = desk = Loop(self.started.driver, self._failed)
        release = MemoryRelease(loop.call_later, loop.time)
        desk.on_upkeep = lambda: self._after_upkeep(release)
        self._watch_memory(loop, release)
        desk.start()
        try:
            self.tls_files = CertificateWatch(self.settings, self.home.path, self.log)
            self.tls_files.watch(loop.call_later)
            await add_signing_keys(desk, self.log)
            self._follow_directory()
            await self._open(doors(self._service()))
            await self._start_directory()
            self._coordinate()
            self._watch_addresses(loop)
            collect_in_small_steps()
            CollectInTime(loop.call_later, loop.time, lambda: desk.turns, release.look)
            self._announce()
            loop.call_soon(desk.turn_times.restart, self._slow_turn)  # after the turns of the start
            keep_telling(self.notifier, loop.call_later)
            await self._ending.wait()
        except NotStarted as error:
            self.log.error("not_started", cause=error)
            await self._close()
            raise
        try:
            await self._close()
        except StoreError as error:  # the last sync
            self._failed(error)
        if self._failure is not None:
            return Outcome(FAILED, f"the queue manager had to stop: {self._failure}")
        return Outcome(STOPPED)

    def _service(self) -> Service:
        machine = self.settings.queue_manager
        return Service(
            home=self.home.path,
            name=machine.name,
            version=self.options.version,
            host=machine.listen,
            ports=PortSet(machine.ports),
            settings=self.settings,
            desk=self.desk,
            started=self.started,
            log=self.log,
            memory=self.memory,
            room=self.room,
            tls_files=self.tls_files,
            at_end=self._at_end,
            directory=self._directory,
        )

    # -- the start

    async def _open(self, places: list[DoorAddress]) -> None:
        for place in places:
            name = place.door.name
            try:
                if where := await place.door.start(place.host, place.port):
                    self.endpoints[name] = where
            except OSError as error:
                raise NotStarted(cannot_listen(name, place.host, place.port, error)) from None
            self._places.append(place)

    def _follow_directory(self) -> None:
        """Opens the authority of the directory, which gets a thread of its own."""
        section = self.settings.directory
        authority = open_authority(section, self.home.path)
        if authority is not None:
            self._directory = FollowedDirectory(self.desk, authority, section)

    async def _start_directory(self) -> None:
        if endpoint := self.endpoints.get("binary"):
            tell_addresses(self.desk, endpoint, _full_name(self.started))
        if self._directory is not None:
            await self._directory.start()

    def _coordinate(self) -> None:
        """Shares transactions with peers, who call the admin endpoint."""
        section, admin = self.settings.transactions, self.settings.admin
        self._coordination = Coordination(self.desk, self.log)
        self.tls_files.give("transactions", self._coordination.use_tls)
        scheme, endpoint = "https" if admin.certificate else "http", self.endpoints.get("admin")
        url = section.url or (f"{scheme}://{endpoint}" if endpoint else "")
        self.started.manager.transactions.set_url(peer_url(url))
        self._coordination.start()

    def _announce(self) -> None:
        name = self.settings.queue_manager.name
        guid = format_guid(self.started.manager.machine.identifier)
        ready: dict[str, object] = {
            "pid": os.getpid(),
            "name": name,
            "guid": guid,
            "home": str(self.home.path),
            "log": str(self.home.path / self.settings.log.file) if self.settings.log.file else "",
            "version": self.options.version,
            "endpoints": self.endpoints,
            "console": self._console(),
        }
        if self.options.ready_file is not None:
            try:
                write_ready_file(self.options.ready_file, ready)
            except OSError as error:
                raise NotStarted(
                    f"{self.options.ready_file} cannot be written: {error.strerror or error}"
                ) from None
        if self.options.tell is not None:
            self.options.tell(ready)
        self.log.info("started", name=name, guid=guid, pid=os.getpid(), **self.endpoints)
        self.notifier.ready(f"queue manager {name}")

    def _console(self) -> str:
        """Return the address of the console; empty where it is not served."""
        admin, endpoint = self.settings.admin, self.endpoints.get("admin", "")
        scheme = "https" if admin.certificate else "http"
        return f"{scheme}://{endpoint}/console/" if endpoint and admin.serves_console else ""

    # -- while it runs

    def _watch_addresses(self, loop: asyncio.AbstractEventLoop) -> None:
        def changed(addresses: tuple[str, ...]) -> None:
            self.log.info("addresses_changed", addresses=", ".join(addresses))
            self.desk.decide(lambda m: m.queues.set_interfaces(addresses), lambda answer: None)

        known = self.started.manager.machine.settings.interfaces
        self._addresses = AddressWatch(loop, known, changed)

    def _listen_to_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)

    def _hung_up(self) -> None:
        """Take files that were replaced: the log, and certificates."""
        self.log.reopen()
        self.tls_files.look()

    def _end(self, reason: str) -> None:
        if not self._ending.is_set():
            self.log.info("stopping", reason=reason)
            self._ending.set()

    def _failed(self, error: BaseException) -> None:
        """The log could not be written: what is decided cannot be kept, so nothing goes on."""
        self._failure = error
        self.log.error("failed", cause=error)
        self._ending.set()

    def _internal_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A mistake of ours in one callback: the others go on."""
        cause = context.get("exception")
        details: dict[str, object] = {"message": context.get("message")}
        if isinstance(cause, BaseException):
            details |= {"kind": type(cause).__name__, "cause": cause, "where": place_of(cause)}
        self.log.error("internal_error", **details)

    def _slow_turn(self, turn: SlowTurn) -> None:
        """Others waited meanwhile: this is a fault of ours, or more work than a turn may have."""
        self.log.warning(
            "slow_turn",
            cpu_ms=round(1000 * turn.cpu_s),
            calls=turn.calls,
            longest=turn.longest,
            longest_ms=round(1000 * turn.longest_s),
        )

    def _after_upkeep(self, release: MemoryRelease) -> None:
        self._look_for_damage()
        release.note_messages(len(self.started.store.state.table))

    def _look_for_damage(self) -> None:
        """Damage that compaction has met has stopped it, and nothing else."""
        damage = self.started.store.damage
        if (damage is not None) == self._damage_told:
            return
        self._damage_told = damage is not None
        if damage is not None:
            self.log.error("store_damaged", cause=damage)
        self.desk.decide(lambda m: m.messages.met_by_upkeep(damage), lambda answer: None)

    def _watch_memory(self, loop: asyncio.AbstractEventLoop, release: MemoryRelease) -> None:
        limits = self.settings.limits
        self.memory = memory = MemoryAccount(limits.memory, limits.unsynced)

        logged, unlogged = deque[float](maxlen=2), 0
        looking = False

        def look() -> None:
            nonlocal looking
            looking = False
            release.note_buffers(memory.look_at_peak())
            closed = memory.close_slow(self.started.driver.clock()[0])
            if closed:
                self.log.warning("slow_sessions_closed", count=closed)
            if release.loaded or memory.is_watched:
                look_soon()

        def look_soon() -> None:
            nonlocal looking
            if not looking:
                looking = True
                loop.call_later(MEMORY_LOOK_S, look)

        def short(is_short: bool) -> None:
            nonlocal unlogged
            now_s = loop.time()
            if len(logged) == logged.maxlen and now_s - logged[0] < MEMORY_LOG_S:
                unlogged += 1  # it may come and go many times a second
            else:
                name = "memory_short" if is_short else "memory_enough"
                figures = {"held": memory.held, "reserved": memory.reserved}
                self.log.warning(name, **figures, unlogged=unlogged)
                logged.append(now_s)
                unlogged = 0
            if is_short:
                look_soon()

        def full(is_full: bool) -> None:
            self.desk.decide(
                lambda m: (m.machine.begin_flow_control if is_full else m.machine.end_flow_control)(
                    "memory"
                ),
                lambda answer: None,
            )

        memory.on_short, memory.on_full, memory.on_begun = short, full, look_soon

    # -- the stop

    async def _close(self) -> None:
        """Doors first, so that nothing new comes; waits end; what was decided is kept; the end."""
        self.notifier.stopping()
        if self._addresses is not None:
            self._addresses.close()
        if self.options.ready_file is not None:
            with contextlib.suppress(OSError):
                self.options.ready_file.unlink()
        deadline_s = float(self.settings.limits.stop_s) if self._failure is None else 0.0
        stops = [asyncio.create_task(place.door.stop(deadline_s)) for place in self._places]
        await asyncio.sleep(0)  # each has stopped accepting and reading now
        if self._failure is None:
            self.desk.cancel_waits()
        if stops:
            _, late = await asyncio.wait(stops, timeout=deadline_s + 1)
            for task in late:
                task.cancel()
            await asyncio.gather(*stops, return_exceptions=True)
        if self._coordination is not None:
            await self._coordination.stop()
        if self._directory is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._directory.close)
        await self.desk.stop()
        for call in self._at_end:
            await asyncio.to_thread(call)
        self.log.info("stopped")


def _full_name(started: Started) -> str:
    return started.manager.machine.settings.qualified_computer_name


def write_ready_file(path: Path, ready: dict[str, object]) -> None:
    """Writes the ready file in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(msgspec.json.encode(ready) + b"\n")
    temporary.replace(path)
