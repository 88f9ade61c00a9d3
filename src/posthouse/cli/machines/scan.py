"""`posthouse scan`: the queues of MSMQ machines as a table, JSON, a page and an inventory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from posthouse.cli.command import grouped
from posthouse.cli.exit_codes import DONE, NOT_REACHABLE, REFUSED
from posthouse.cli.machines.options import PORT_MAX, Asking, Hosts
from posthouse.cli.machines.page import page
from posthouse.cli.output import print_json, print_table, say
from posthouse.client.remote.inventory import (
    MachineInventory,
    QueueInventory,
    inventory_of,
    scan,
)
from posthouse.client.replaced_files import take_over
from posthouse.model.text import counted


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scan", rich_help_panel="Other machines")(scan_machines)


@grouped
def scan_machines(
    hosts: Hosts = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Write the result as an inventory, for --inventory."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the result as an HTML page."),
    ] = None,
    binary_port: Annotated[
        int | None,
        typer.Option(
            "--binary-port",
            metavar="N",
            min=1,
            max=PORT_MAX,
            help="Port of the binary protocol, which is asked for the GUID of the machine "
            "(default: 1801, unless HOST has a port).",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print each machine as one line of JSON.")
    ] = False,
    asking: Asking,
) -> None:
    """List the queues of MSMQ machines, with counts, journals, dead letters and outgoing queues.

    The command uses management calls (MS-MQMR, TCP 135 and 2103), and asks TCP 1801 for the GUID,
    which posthouse migrate compares. It reads no messages, and needs nothing installed on the
    machines and no queue manager here. Failed questions are listed with the reason. Not tried
    against Windows.

    Exit code 0: everything was answered, 1: something was not, 3: no machine was reached.

    Example: posthouse scan localhost --timeout 5s --output inventory.json --html machines.html
    """
    tell = print_json if json else tell_machine
    places = asking.places(hosts)
    is_written = output is not None or html is not None
    machines = scan(
        places,
        asking.login(),
        timeout_s=asking.timeout,
        binary_port=binary_port,
        told=(lambda machine: None) if is_written else tell,
    )
    if output is not None:
        written = msgspec.json.format(msgspec.json.encode(inventory_of(machines)), indent=1)
        write(output, written + b"\n")
    if html is not None:
        write(html, page(machines).encode())
    if is_written:  # first the files: who reads the output may leave before its end
        for machine in machines:
            tell(machine)
    raise typer.Exit(_code(machines))


def _code(machines: list[MachineInventory]) -> int:
    if not any(machine.answers for machine in machines):
        return NOT_REACHABLE
    return DONE if all(machine.complete for machine in machines) else REFUSED


def write(path: Path, data: bytes) -> None:
    """Replaces a file as a whole: a reader meanwhile has the old one. A new one is for all."""
    if path.exists() and not path.is_file():  # a device, a pipe
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    number, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            if path.exists():
                take_over(number, path.stat())
            else:
                os.fchmod(number, 0o644)
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# -- for people


def tell_machine(machine: MachineInventory) -> None:
    """A machine as people read it."""
    say(headline(machine))
    if machine.queues or machine.dead_letters:
        columns = ("queue", "kind", "transactional", "messages", "bytes", "journal", "state")
        queues = [*machine.queues, *machine.dead_letters]
        print_table("", columns, [_row(queue) for queue in queues])
    if machine.outgoing:
        rows = [
            (one.format_name, one.state, f"{one.messages:,}", f"{one.bytes:,}",
             ", ".join(one.next_hops))
            for one in machine.outgoing
        ]  # fmt: skip
        print_table("", ("outgoing queue", "state", "messages", "bytes", "next hops"), rows)
    for problem in machine.problems:
        say(f"  Not asked ({problem.kind}): {problem.what}: {problem.cause}. {problem.remedy}")
    if machine.left_out:
        say(f"  {machine.left_out:,} more are not shown.")
    say("")


def headline(machine: MachineInventory) -> str:
    """The machine in one line."""
    if not machine.reached:
        return f"{machine.host}: {'refused' if machine.answers else 'not reached'}."
    messages = sum(queue.messages for queue in machine.queues)
    dead = sum(queue.messages for queue in machine.dead_letters if "dead" in queue.path)
    parts = [
        machine.version or "unknown version",
        "online" if machine.connected else "offline",
        f"{counted(len(machine.queues), 'queue')} with {counted(messages, 'message')}",
        counted(dead, "dead letter"),
        counted(len(machine.outgoing), "outgoing queue"),
    ]
    return f"{machine.host}: {', '.join(parts)}."


def _row(queue: QueueInventory) -> tuple[str, ...]:
    words = {None: "unknown", True: "yes", False: "no"}
    return (
        queue.path,
        queue.kind,
        words[queue.transactional] if queue.active else "",
        f"{queue.messages:,}",
        f"{queue.bytes:,}",
        f"{queue.journal_messages:,}",
        "" if queue.active else "not active",
    )
