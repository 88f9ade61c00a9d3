"""`posthouse migrate switch`: what is left of a cutover, and what still arrives there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from posthouse.api.types import QueueJson
from posthouse.cli.command import talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.migrate.pull import Pulling
from posthouse.cli.migrate.sources import (
    Choice,
    Machines,
    Reach,
    SourceQueue,
    machines,
)
from posthouse.cli.output import print_json, say
from posthouse.client.errors import ServerUnreachable
from posthouse.client.remote.cutover import CutoverFinding, aliases_check, name_check, still_there
from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.model.guids import format_guid
from posthouse.model.text import counted

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
    gaps = choice.gaps()
    with machines(reach) as found:
        is_here = _is_this_machine(remote, found, queues[0])
        findings = _findings(remote, host, queues, None if is_here else found)
        for finding in findings:
            _tell(remote, finding)
        if follow and is_here:
            raise InvalidParameter(f"{host} is this machine by now", NAME_ADDRESS)
        if follow:
            Pulling(remote, found, reach.patience).follow(queues)
    if gaps or any(finding.state != "ok" for finding in findings):
        raise typer.Exit(REFUSED)


def _is_this_machine(remote: Remote, found: Machines, queue: SourceQueue) -> bool:
    """Whether the name of the old machine leads here already, as it does after the change-over."""
    try:
        return format_guid(found.source(queue).guid) == remote.client.status().guid
    except ServerUnreachable:
        return False


def _findings(
    remote: Remote, host: str, queues: list[SourceQueue], found: Machines | None
) -> list[CutoverFinding]:
    """`found` is None where the old machine is not reached by its name any longer."""
    status = remote.client.status()
    missing = [queue.target for queue in queues if not _is_here(remote, queue.target)]
    here = next((one.target for one in queues if one.target not in missing), None)
    findings = [
        _missing(missing, len(queues)),
        aliases_check(remote.client, host, status.name, here),
        name_check(host),
    ]
    if found is None:
        said = f"{host} leads to this machine, so the old one was not asked"
        return [*findings, CutoverFinding("old machine", "unknown", said, NAME_ADDRESS)]
    place, login = found.place(queues[0])
    return [*findings, *still_there(place, login, [queue.name for queue in queues])]


def _is_here(remote: Remote, path: str) -> bool:
    try:
        remote.ask(QueueJson, "GET", path_of("queues", path))
    except QueueNotFound:
        return False
    return True


def _missing(missing: list[str], count: int) -> CutoverFinding:
    if not missing:
        return CutoverFinding("queues", "ok", f"all {count:,} queues are here")
    return CutoverFinding(
        "queues",
        "left",
        f"{counted(len(missing), 'queue')} missing here: {', '.join(missing[:5])}",
        "Make them: posthouse migrate plan INVENTORY --apply.",
    )


def _tell(remote: Remote, finding: CutoverFinding) -> None:
    if remote.json:
        print_json(msgspec.to_builtins(finding))
        return
    remedy = f" {finding.remedy}" if finding.remedy and finding.state != "ok" else ""
    say(f"{finding.check}: {finding.state}. {finding.found}.{remedy}")
