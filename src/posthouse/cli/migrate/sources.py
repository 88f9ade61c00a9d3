"""Options of `posthouse migrate` that select queues, machines and logins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from posthouse.cli.command import guid as checked_guid
from posthouse.cli.durations import duration
from posthouse.cli.exit_codes import DONE, NOT_REACHABLE, REFUSED
from posthouse.cli.machines.options import (
    PORT_MAX,
    ScanLevel,
    ScanMechanism,
    inventory_in,
    login,
)
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import complain
from posthouse.client.remote.inventory import MachineInventory
from posthouse.client.remote.login import EPM_PORT, RemoteLogin, RemotePlace
from posthouse.model.errors import InvalidParameter
from posthouse.model.names import (
    DirectName,
    FormatName,
    PathName,
    far_name_of,
    parse_format_name,
    parse_name,
)

SYSTEM: Final = "system$;"
JOURNAL: Final = ";journal"

MigrateSource = Annotated[
    str | None,
    typer.Argument(
        metavar="[SOURCE]",
        help="A queue of another machine, such as DIRECT=OS:host\\private$\\orders or "
        "host/private$/orders.",
    ),
]
MigrateTarget = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]",
        parser=full_name,
        help="Queue here (default: the queue of the same name).",
    ),
]
FromInventory = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        metavar="FILE",
        help="Take all queues of an inventory (`posthouse scan --output`).",
    ),
]
OnMachine = Annotated[
    str | None,
    typer.Option("--machine", metavar="HOST", help="Take only this machine of the inventory."),
]
WithJournals = Annotated[
    bool, typer.Option("--journals", help="Include the journals of the queues.")
]
WithDeadLetters = Annotated[
    bool, typer.Option("--dead-letters", help="Include the dead-letter queues of the machine.")
]
MigrateUser = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        help="User on the other machine, NAME or DOMAIN\\NAME. The password is read from standard "
        "input, or asked for on a terminal.",
    ),
]
MigratePassword = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="File whose first line is the password."),
]
MigrateRpcPort = Annotated[
    int | None,
    typer.Option(
        "--rpc-port",
        metavar="N",
        min=1,
        max=PORT_MAX,
        help="Port of remote read there (default: its endpoint mapper is asked).",
    ),
]
MigrateEpmPort = Annotated[
    int,
    typer.Option(
        "--epm-port", metavar="N", min=1, max=PORT_MAX, help="Port of its endpoint mapper."
    ),
]
MigrateBinaryPort = Annotated[
    int | None,
    typer.Option(
        "--binary-port",
        metavar="N",
        min=1,
        max=PORT_MAX,
        help="Port of its binary protocol, which is asked for its GUID (default: the one in the "
        "inventory, or 1801).",
    ),
]
MigrateGuid = Annotated[
    str | None,
    typer.Option(
        "--guid",
        metavar="GUID",
        parser=checked_guid,
        help="GUID of its queue manager, if it cannot be asked; for one machine.",
    ),
]
MigrateAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="Where the machine is reached, if its name leads elsewhere by now.",
    ),
]
MigratePatience = Annotated[
    float,
    typer.Option(
        "--patience",
        metavar="TIME",
        parser=duration(0.1, 30 * 86_400),
        help="Longest time to wait while a machine cannot be reached.",
    ),
]
Shared = Annotated[
    bool,
    typer.Option(
        "--shared",
        help="Let other programs receive from the source meanwhile. The order is not kept.",
    ),
]
PATIENCE_S: Final = 60.0


class SourceQueue(NamedTuple):
    """A queue elsewhere, and the queue here that it goes with."""

    place: RemotePlace
    name: FormatName
    target: str
    messages: int | None = None  # as the inventory has it
    path: str = ""  # as the inventory has it: one queue has several format names, and one path
    machine: str = ""  # the name of the machine, wherever it is reached
    guid: str = ""  # of the machine, as the inventory has it
    binary_port: int | None = None  # of the machine, as the inventory has it

    @property
    def label(self) -> str:
        """How it is shown."""
        return f"{self.place.host}: {self.name}"


class Reach(NamedTuple):
    """Options of several commands: how other machines are reached."""

    user: MigrateUser = None
    password_file: MigratePassword = None
    rpc_port: MigrateRpcPort = None
    epm_port: MigrateEpmPort = EPM_PORT
    binary_port: MigrateBinaryPort = None
    guid: MigrateGuid = None
    address: MigrateAddress = None
    authentication: ScanLevel = None
    mechanism: ScanMechanism = None
    patience: MigratePatience = PATIENCE_S

    def place(self, host: str, rpc_port: int | None = None) -> RemotePlace:
        """Where a machine is reached."""
        return RemotePlace(self.address or host, self.rpc_port or rpc_port, self.epm_port)

    def login(self) -> RemoteLogin:
        """Who reads; the password is asked for once."""
        return login(self.user, self.password_file, self.authentication, self.mechanism)


class Choice(NamedTuple):
    """Which queues a command is about."""

    source: str | None = None
    target: str | None = None
    inventory: Path | None = None
    machine: str | None = None
    journals: bool = False
    dead_letters: bool = False

    def gaps(self) -> int:
        """Prints what the inventory lacks, and returns the exit code for it."""
        if self.inventory is None:
            return DONE
        found = inventoried(self.inventory, self.machine)
        for line in (line for machine in found for line in gaps_of(machine)):
            complain(line)
        if all(machine.complete for machine in found):
            return DONE
        return REFUSED if all(machine.answers for machine in found) else NOT_REACHABLE

    def queues(self, reach: Reach) -> list[SourceQueue]:
        """Every queue, journals before the queues that write to them."""
        if (self.source is None) == (self.inventory is None):
            raise typer.BadParameter("name a queue of another machine, or --inventory FILE")
        if self.source is not None:
            if self.machine is not None:
                raise typer.BadParameter("--machine goes with --inventory")
            return self._named(self.source, reach)
        if self.target is not None:
            raise typer.BadParameter("with --inventory queues keep their names")
        machines = inventoried(self.inventory, self.machine)
        if len(machines) > 1:
            _refuse_of_one(reach, [one.host for one in machines])
        found = [one for machine in machines for one in self._of_machine(machine, reach)]
        if not found:
            raise InvalidParameter(
                "the inventory has no queues of that kind",
                "Look at what it has, or make another one: posthouse scan HOST --output FILE.",
            )
        return found

    def _named(self, source: str, reach: Reach) -> list[SourceQueue]:
        place, name = named_source(source, reach)
        target = self.target or same_name(name)
        queue = SourceQueue(place, name, target, machine=name.host)
        found = []
        if self.journals:
            found.append(_journal_of(queue))
        return [*found, queue, *(self._dead(queue) if self.dead_letters else [])]

    def _dead(self, queue: SourceQueue) -> list[SourceQueue]:
        machine = str(queue.name).partition("\\")[0]
        names = [f"{machine}\\{SYSTEM}{word}" for word in ("deadletter", "deadxact")]
        return [_system_queue(queue.place, name, queue.machine) for name in names]

    def _of_machine(self, machine: MachineInventory, reach: Reach) -> Iterator[SourceQueue]:
        place = reach.place(machine.host, machine.port)
        for one in machine.queues:
            name = parse_format_name(one.format_name)
            target = _target_of(one.path, name)
            queue = SourceQueue(
                place, name, target, one.messages, one.path, machine.host, machine.guid,
                machine.binary_port,
            )  # fmt: skip
            if self.journals:
                yield _journal_of(queue, one.journal_messages)
            yield queue
        for one in machine.dead_letters if self.dead_letters else ():
            if not one.path.endswith(JOURNAL):
                dead = _system_queue(place, one.format_name, machine.host, one.messages)
                yield dead._replace(guid=machine.guid, binary_port=machine.binary_port)


def _refuse_of_one(reach: Reach, hosts: list[str]) -> None:
    """Options that hold for one machine only."""
    for option, value in (("--guid", reach.guid), ("--address", reach.address)):
        if value is not None:
            raise typer.BadParameter(
                f"{option} is of one machine, and the inventory has {', '.join(hosts)}: choose one "
                "of them with --machine HOST"
            )


def _target_of(path: str, name: FormatName) -> str:
    parsed = parse_name(path)
    return str(parsed.with_computer(".")) if isinstance(parsed, PathName) else same_name(name)


def _journal_of(queue: SourceQueue, messages: int | None = None) -> SourceQueue:
    name = parse_format_name(f"{queue.name}{JOURNAL}")
    path = queue.path + JOURNAL if queue.path else ""
    target = queue.target + JOURNAL
    return queue._replace(name=name, target=target, messages=messages, path=path)


def _system_queue(
    place: RemotePlace, text: str, machine: str, messages: int | None = None
) -> SourceQueue:
    name = parse_format_name(text)
    return SourceQueue(place, name, same_name(name), messages, machine=machine)


def gaps_of(machine: MachineInventory) -> Iterator[str]:
    """What the inventory of a machine lacks, a line for each."""
    for problem in machine.problems:
        yield f"{machine.host}: not asked ({problem.kind}): {problem.what}: {problem.cause}"
    if machine.left_out:
        yield f"{machine.host}: {machine.left_out:,} more queues are not in the inventory"
    if not machine.reached:
        yield f"{machine.host}: none of its queues is in the inventory. Scan it again"


def inventoried(path: Path | None, machine: str | None) -> list[MachineInventory]:
    """The machines of an inventory, or the one that is named."""
    assert path is not None
    found = inventory_in(path).machines
    if machine is None:
        return found
    chosen = [one for one in found if one.host.casefold() == machine.casefold()]
    if not chosen:
        names = ", ".join(one.host for one in found)
        raise InvalidParameter(f"{path} has no machine {machine}", f"It has: {names}.")
    return chosen


def named_source(source: str, reach: Reach) -> tuple[RemotePlace, DirectName]:
    """The machine and the name of a queue on the command line."""
    name = parse_name(source)
    if isinstance(name, PathName) and name.computer != ".":
        name = far_name_of(name)
    if not isinstance(name, DirectName):
        raise typer.BadParameter(
            "the name of the source must have its machine: DIRECT=OS:host\\private$\\orders or "
            "host/private$/orders"
        )
    return reach.place(name.host), name


def same_name(name: FormatName) -> str:
    """The queue here of the same name."""
    if not isinstance(name, DirectName):
        raise InvalidParameter(f"the queue here for {name} is not known", "Name it.")
    return ".\\" + str(name.path).partition("\\")[2]
