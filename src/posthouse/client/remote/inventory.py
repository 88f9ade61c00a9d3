"""The inventory of another computer's MSMQ: queues, counts, journals, dead letters.

Everything is asked by management calls ([MS-MQMR]); no message is read. What cannot be asked is
listed with the reason: a scan of many machines shows what it saw and what it did not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from posthouse.client.errors import ClientConnectionError, ServerUnreachable
from posthouse.client.msmq import BINARY_PORT
from posthouse.client.remote.connect import LoginDenied, NotReached
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.remote.management import NOT_ACTIVE, RemoteManagement
from posthouse.client.remote.pull.source import check_doors, guid_of_machine
from posthouse.model.errors import (
    AccessDenied,
    OperationNotSupportedByRemoteComputer,
    QueueError,
    RemoteProtocolError,
)
from posthouse.model.guids import format_guid
from posthouse.model.names import (
    FormatName,
    PathName,
    far_name_of,
    parse_format_name,
    parse_name,
)
from posthouse.rpc.propvariant import Variant

INVENTORY_VERSION: Final = 1
QUEUES_MAX: Final = 10_000
"""Of one machine; those beyond are counted, not asked."""
TOGETHER_MAX: Final = 16
"""Machines that are asked at a time."""
PROBLEMS_MAX: Final = 100
GUID_S: Final = 3.0
SYSTEM_QUEUES: Final = ("deadletter", "deadxact", "journal")
MACHINE_PROPERTIES: Final = (1, 2, 3, 4, 5, 6)
QUEUE_PROPERTIES: Final = (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12)

ProblemKind = Literal[
    "name", "port", "firewall", "network", "interface", "login", "rights", "protocol", "time",
    "queue",
]  # fmt: skip


class ScanProblem(msgspec.Struct, frozen=True):
    """What could not be asked, and why."""

    kind: ProblemKind
    what: str
    cause: str
    remedy: str = ""


class QueueInventory(msgspec.Struct, frozen=True):
    """A queue of a machine. One that is not active is closed and empty."""

    path: str
    format_name: str
    kind: str = "private"
    transactional: bool | None = None
    active: bool = True
    messages: int = 0
    bytes: int = 0
    journal_messages: int = 0
    journal_bytes: int = 0


class OutgoingInventory(msgspec.Struct, frozen=True):
    """An outgoing queue: where it leads, how it gets on, and by which addresses."""

    format_name: str
    state: str
    messages: int = 0
    bytes: int = 0
    next_hops: tuple[str, ...] = ()


class MachineInventory(msgspec.Struct):
    """Everything that a machine told."""

    host: str
    time: str
    port: int | None = None  # of remote procedure calls, where one was named
    name: str = ""  # that the machine has for itself
    guid: str = ""
    binary_port: int | None = None  # where the GUID was asked for
    reached: bool = False
    version: str = ""
    connected: bool | None = None
    directory_server: str = ""
    bytes: int | None = None
    seconds: float = 0.0
    queues: list[QueueInventory] = []
    dead_letters: list[QueueInventory] = []
    outgoing: list[OutgoingInventory] = []
    problems: list[ScanProblem] = []
    left_out: int = 0

    @property
    def complete(self) -> bool:
        """Whether everything was asked."""
        return self.reached and not self.problems and not self.left_out

    @property
    def answers(self) -> bool:
        """Whether something there answered, if only to refuse."""
        kinds = {problem.kind for problem in self.problems}
        return self.reached or bool(kinds & {"login", "rights", "interface", "queue"})

    @property
    def refuses_login(self) -> bool:
        """Whether it refused the login. Asking again with it may lock the account there."""
        return any(problem.kind == "login" for problem in self.problems)


class Inventory(msgspec.Struct):
    """The file that later commands begin with."""

    format: Literal["posthouse inventory"]
    version: Literal[1]
    made: str
    machines: list[MachineInventory]


class _OutOfTime(Exception):
    """The time for one machine is over."""


def scan(
    places: Iterable[RemotePlace],
    login: RemoteLogin,
    *,
    timeout_s: float,
    binary_port: int | None = None,
    told: Callable[[MachineInventory], None] = lambda machine: None,
) -> list[MachineInventory]:
    """Asks machines, several at a time; each has `timeout_s` for all its answers.

    Where the port of remote procedure calls is named and that of the binary protocol is not, the
    usual one may lead to another machine, and is not asked for the GUID.
    """
    wanted = list(places)
    with ThreadPoolExecutor(min(len(wanted), TOGETHER_MAX) or 1) as pool:
        found = []

        def ask(place: RemotePlace) -> MachineInventory:
            found = scan_machine(place, login, timeout_s)
            if found.reached and (binary_port or place.rpc_port is None):
                _identify(found, place, login, binary_port or BINARY_PORT)
            return found

        for machine in pool.map(ask, wanted):
            told(machine)
            found.append(machine)
        return found


def _identify(machine: MachineInventory, place: RemotePlace, login: RemoteLogin, port: int) -> None:
    """Note the GUID that the binary protocol gives, if it is that of the scanned machine."""
    try:
        guid = guid_of_machine(place.host, port, GUID_S)
    except (ServerUnreachable, RemoteProtocolError):
        return  # its port may be closed; a pull asks again
    management = RemoteManagement(place, login, timeout_s=GUID_S)
    try:
        check_doors(management, guid, port)
        machine.guid, machine.binary_port = format_guid(guid), port
    except QueueError as error:
        _add(machine, ScanProblem("port", f"port {port}", error.cause, error.remedy))
    finally:
        management.close()


def scan_machine(place: RemotePlace, login: RemoteLogin, timeout_s: float) -> MachineInventory:
    """Asks one machine; what goes wrong is part of the answer."""
    begun = time.monotonic()
    machine = MachineInventory(place.host, _now(), place.rpc_port)
    management = RemoteManagement(place, login, timeout_s=timeout_s)
    try:
        _Scan(machine, management, begun + timeout_s).run()
    except _OutOfTime:
        _add(machine, ScanProblem("time", "the machine", f"it took longer than {timeout_s:g} s"))
    except (QueueError, RemoteProtocolError, OSError) as error:
        _add(machine, problem_of(error, "the machine"))
    finally:
        management.close()
    machine.seconds = round(time.monotonic() - begun, 3)
    return machine


class _Scan:
    """One machine, asked from its list of queues to the last of them."""

    def __init__(
        self, machine: MachineInventory, management: RemoteManagement, deadline: float
    ) -> None:
        self._machine = machine
        self._management = management
        self._deadline = deadline
        self._computer = ""
        self._asked: set[str] = set()

    def run(self) -> None:
        machine = self._machine
        self._leave_time()
        values = self._management.machine(*MACHINE_PROPERTIES)
        machine.reached = True
        machine.version = _text(values[5])
        machine.connected = _text(values[4]).upper() == "CONNECTED"
        machine.directory_server = _text(values[3]).lstrip("\\")
        machine.bytes = _number(values[6])
        private = _texts(values[2])
        self._computer = private[0].partition("\\")[0] if private else machine.host
        machine.name = self._computer if private else ""
        for path in self._bounded(private):
            self._private_queue(path)
        known = {queue.path.casefold() for queue in machine.queues}
        for word in SYSTEM_QUEUES:
            self._system_queue(word)
        for name in self._bounded(_texts(values[1])):
            if name.casefold() not in self._asked:
                self._active_queue(name, known)

    def _bounded(self, names: list[str]) -> list[str]:
        self._machine.left_out += max(len(names) - QUEUES_MAX, 0)
        return names[:QUEUES_MAX]

    def _leave_time(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise _OutOfTime
        self._management.timeout_s = left

    def _ask(self, name: str) -> dict[int, Variant] | None:
        """The properties of a queue; None: it is not active. Refusals are noted and raised."""
        self._leave_time()
        self._asked.add(name.casefold())
        try:
            parsed: FormatName = parse_format_name(name)
            return self._management.queue(parsed, *QUEUE_PROPERTIES)
        except QueueError as error:
            if error.code in NOT_ACTIVE:
                return None
            _add(self._machine, problem_of(error, name))
            raise

    def _private_queue(self, path: str) -> None:
        name = f"DIRECT=OS:{path}"
        try:
            values = self._ask(name)
        except QueueError:
            return
        self._machine.queues.append(_queue(path, name, values))

    def _system_queue(self, word: str) -> None:
        path = f"{self._computer}\\system$;{word}"
        name = _direct_name(path)
        try:
            values = self._ask(name)
        except QueueError:
            return
        queue = _queue(path, name, values, kind="system")
        self._machine.dead_letters.append(queue)

    def _active_queue(self, name: str, known: set[str]) -> None:
        """One that the list of private queues does not have: public, or outgoing."""
        try:
            values = self._ask(name)
        except QueueError:
            return
        if values is None:
            return
        if _text(values[4]).upper() == "REMOTE":
            self._machine.outgoing.append(
                OutgoingInventory(
                    _text(values[2]) or name,
                    _text(values[11]).lower(),
                    _number(values[7]) or 0,
                    _number(values[8]) or 0,
                    tuple(_texts(values[12])),
                )
            )
            return
        path = _text(values[1]) or name
        if path.casefold() not in known and ";" not in path:
            self._machine.queues.append(_queue(path, name, values))


def _direct_name(path: str) -> str:
    """The format name of a queue, however it is called; a machine may be known by its address."""
    try:
        parsed = parse_name(path)
    except QueueError:
        return f"DIRECT=OS:{path}"
    return str(far_name_of(parsed)) if isinstance(parsed, PathName) else f"DIRECT=OS:{path}"


def _queue(
    path: str, name: str, values: dict[int, Variant] | None, kind: str = "private"
) -> QueueInventory:
    if values is None:
        return QueueInventory(path, name, kind, active=False)
    word = _text(values[3]).lower()
    return QueueInventory(
        path,
        name,
        kind if kind != "private" or not word else word,
        {"YES": True, "NO": False}.get(_text(values[5]).upper()),
        True,
        _number(values[7]) or 0,
        _number(values[8]) or 0,
        _number(values[9]) or 0,
        _number(values[10]) or 0,
    )


# -- problems


def problem_of(error: Exception, what: str) -> ScanProblem:
    """An error as a line of the report."""
    cause = str(getattr(error, "cause", "") or error)
    remedy = str(getattr(error, "remedy", ""))
    return ScanProblem(_kind_of(error), what, cause, remedy)


def _kind_of(error: Exception) -> ProblemKind:
    if isinstance(error, NotReached):
        return error.reason
    if isinstance(error, AccessDenied):
        return "login" if isinstance(error, LoginDenied) else "rights"
    if isinstance(error, OperationNotSupportedByRemoteComputer):
        return "interface"
    if isinstance(error, RemoteProtocolError):
        return "protocol"
    if isinstance(error, ClientConnectionError | OSError):
        return "network"
    return "queue"


def _add(machine: MachineInventory, problem: ScanProblem) -> None:
    if len(machine.problems) < PROBLEMS_MAX:
        machine.problems.append(problem)
    else:
        machine.left_out += 1


# -- values


def _text(variant: Variant) -> str:
    return variant.value if isinstance(variant.value, str) else ""


def _number(variant: Variant) -> int | None:
    return variant.value if isinstance(variant.value, int) else None


def _texts(variant: Variant) -> list[str]:
    value = variant.value
    return [one for one in value if isinstance(one, str)] if isinstance(value, tuple) else []


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def inventory_of(machines: list[MachineInventory]) -> Inventory:
    """The file of a scan."""
    return Inventory("posthouse inventory", INVENTORY_VERSION, _now(), machines)


def read_inventory(data: bytes) -> Inventory:
    """The inventory in a file; raises `ValueError` with what is wrong."""
    try:
        return msgspec.json.decode(data, type=Inventory)
    except msgspec.MsgspecError as error:
        raise ValueError(f"this is not an inventory of posthouse scan: {error}") from None
