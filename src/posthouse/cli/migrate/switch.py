"""`posthouse migrate switch`: what is left of a cutover, and what still arrives there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from posthouse.api.types import QueueJson
from posthouse.cli.command import talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.migrate.machines import Machines, machines
from posthouse.cli.migrate.pull import Pulling
from posthouse.cli.migrate.sources import Choice, Reach, SourceQueue
from posthouse.cli.output import print_json, say
from posthouse.client.errors import ServerUnreachable
from posthouse.client.remote.connect import LoginDenied
from posthouse.client.remote.cutover import (
    CutoverFinding,
    LeftQueue,
    aliases_check,
    name_check,
    not_asked,
    still_there,
)
from posthouse.client.remote.inventory import MachineInventory, scan_machine
from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.model.guids import format_guid
from posthouse.model.text import counted

ASK_S: Final = 20.0
COUNTED_MAX: Final = 1_000
"""Up to this number, the messages of a queue are listed, to see if all of them can be read."""
NAME_ADDRESS: Final = "Name the old machine by its own address: --address ADDRESS."


@talking
def switch(
    remote: Remote,
    host: Annotated[str, typer.Argument(metavar="HOST", help="Machine to move away from.")],
    inventory: Annotated[
        Path,
        typer.Option(
            "--inventory",
            metavar="FILE",
            help="Inventory: the file that `posthouse scan --output` wrote.",
        ),
    ],
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Continue, and forward messages that still arrive there."),
    ] = False,
    *,
    reach: Reach,
) -> None:
    """Check and print what is left of the change-over from another machine.

    Whether its name leads here in DNS, whether this queue manager answers to it, which queues are
    missing here, and what the other machine still has. With --follow it goes on until interrupted
    and moves here what still arrives there. Once the name leads here, --address names the old
    machine.

    Exit code 0: everything is done, 1: something is left to do.

    Example: posthouse migrate switch winhost --inventory inventory.json
    """
    choice = Choice(inventory=inventory, machine=host)
    queues = choice.queues(reach)
    code = choice.gaps() and REFUSED
    with machines(reach) as found:
        switching = Switching(remote, host, found, queues)
        for finding in switching.findings():
            code = code if finding.state == "ok" else REFUSED
            _tell(remote, finding)
        if follow and switching.is_here:
            raise InvalidParameter(f"{host} is this machine by now", NAME_ADDRESS)
        if follow and not switching.login_refused:
            code = max(code, Pulling(remote, found, reach.patience).follow(queues))
    if code:
        raise typer.Exit(code)


class Switching:
    """The checks of one change-over."""

    def __init__(
        self, remote: Remote, host: str, found: Machines, queues: list[SourceQueue]
    ) -> None:
        self.is_here = False  # the name of the old machine leads here already
        self.login_refused = False
        self._remote = remote
        self._host = host
        self._machines = found
        self._queues = queues

    def findings(self) -> Iterator[CutoverFinding]:
        """Each finding; a machine that refuses the login is asked no further."""
        remote, host, queues = self._remote, self._host, self._queues
        status = remote.client.status()
        missing = [queue.target for queue in queues if not _is_here(remote, queue.target)]
        here = next((one.target for one in queues if one.target not in missing), None)
        yield _missing(missing, len(queues))
        yield aliases_check(remote.client, host, status.name, here)
        yield name_check(host)
        try:
            self.is_here = self._guid() == status.guid
        except LoginDenied as error:
            self.login_refused = True
            yield CutoverFinding("old machine", "unknown", error.cause, error.remedy)
            return
        if self.is_here:
            said = f"{host} leads to this machine, so the old one was not asked"
            yield CutoverFinding("old machine", "unknown", said, NAME_ADDRESS)
            return
        machine = scan_machine(*self._machines.place(queues[0]), ASK_S)
        self.login_refused = machine.refuses_login
        if not machine.reached:
            yield not_asked(machine)
            return
        yield from still_there(machine, list(self._left(machine)))

    def _guid(self) -> str:
        """The GUID of the machine that the name leads to; empty where it does not answer."""
        try:
            return format_guid(self._machines.source(self._queues[0], patient=False).guid)
        except ServerUnreachable:
            return ""

    def _left(self, machine: MachineInventory) -> Iterator[LeftQueue]:
        wanted = {str(queue.name).casefold(): queue for queue in self._queues}
        for one in machine.queues:
            queue = wanted.get(one.format_name.casefold())
            if queue is None or not one.messages:
                continue
            unreadable = 0
            if one.messages <= COUNTED_MAX:
                with closing(self._machines.queue(queue, takes=False)) as reader:
                    unreadable = self._machines.unreadable(queue, reader) or 0
            yield LeftQueue(one.path, one.messages, min(unreadable, one.messages))


def _is_here(remote: Remote, path: str) -> bool:
    try:
        remote.ask(QueueJson, "GET", path_of("queues", path))
    except QueueNotFound:
        return False
    return True


def _missing(missing: list[str], count: int) -> CutoverFinding:
    if not missing:
        return CutoverFinding(
            "queues", "ok", f"{counted(count, 'queue')} of the inventory, all here"
        )
    return CutoverFinding(
        "queues",
        "todo",
        f"{counted(len(missing), 'queue')} missing here: {', '.join(missing[:5])}",
        "Make them: posthouse migrate plan INVENTORY --apply.",
    )


def _tell(remote: Remote, finding: CutoverFinding) -> None:
    if remote.json:
        print_json(msgspec.to_builtins(finding))
        return
    remedy = f" {finding.remedy}" if finding.remedy and finding.state != "ok" else ""
    state = "to do" if finding.state == "todo" else finding.state
    say(f"{finding.check}: {state}. {finding.found}.{remedy}")
