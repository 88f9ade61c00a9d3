"""`posthouse doctor`: checks a store, exports good messages, goes on without damaged ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from posthouse.cli.command import Home
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.machines.options import PerMachine
from posthouse.cli.machines.peer import examine
from posthouse.cli.output import print_json, say
from posthouse.cli.remote_queue import MachineUser, PasswordFile, far_machine
from posthouse.model.errors import InvalidParameter, ServiceNotAvailable
from posthouse.model.text import counted
from posthouse.net.control_socket import default_home
from posthouse.runtime.home import STORE, lock_home
from posthouse.store.disk import RealDisk
from posthouse.store.doctor import Report, check
from posthouse.store.export import Exported, export
from posthouse.store.format import segment_name
from posthouse.store.repair import JOURNAL_NAME, Loss, NotPossible, accept_loss

DAMAGED = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Installation")(doctor)


def doctor(
    home: Home = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="HOME", help="Folder of a store outside a home, such as a backup."
        ),
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Save all readable messages into this new folder. The store is not changed.",
        ),
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option(
            "--accept-loss",
            metavar="SEGMENT",
            help="Repair: drop the damaged records of this file. A copy of the file is kept.",
        ),
    ] = None,
    peer: Annotated[
        str | None,
        typer.Option(
            "--peer",
            metavar="HOST",
            help="Instead of a store, check the connections that messages to and from this "
            "machine need.",
        ),
    ] = None,
    user: MachineUser = None,
    password_file: PasswordFile = None,
    binary_port: Annotated[
        int | None,
        typer.Option(
            "--binary-port",
            metavar="N",
            min=1,
            max=65535,
            help="With --peer: port of its binary protocol.",
        ),
    ] = None,
    timeout: PerMachine = 10.0,
    json: Annotated[
        bool, typer.Option("--json", help="Print the result as one line of JSON.")
    ] = False,
) -> None:
    """Check a store and save readable messages; or check another machine (--peer).

    Stop the queue manager first: a home in use is refused. The command checks every checksum, index
    and checkpoint, and whether replaying the segments gives the same state. Each finding has file,
    offset and what to do. Nothing in the store is changed without --accept-loss. With it, a copy of
    the file is kept, and the loss journal of the store lists what was given up.

    With --peer, the store is not checked. Instead the command tries name, ports, handshake,
    endpoint mapper, login and rights of the other machine, asks the queue manager here for its
    names and for messages without an acknowledgment, and prints what to do about each failure. Not
    tried against Windows.

    Exit code 0: healthy, 1: damaged, in use, or something of the other machine fails.

    Example: posthouse doctor --home ~/.local/share/posthouse
    """
    if peer is not None:
        if any(one is not None for one in (store, export_to, accept)):
            raise typer.BadParameter("--peer checks no store: leave the other options out")
        examine(peer, home, user, password_file, binary_port, timeout, json=json)
    far_machine(peer, user, password_file)
    if home is not None and store is not None:
        raise typer.BadParameter("give --home or --store, not both")
    directory = store_directory(store or home or default_home())
    with _stopped(directory, json):
        if accept is not None:
            _accept(directory, accept, json)
        elif export_to is not None:
            _export(directory, export_to, json)
        else:
            _check(directory, json)


@contextmanager
def _stopped(directory: Path, json: bool) -> Iterator[None]:
    """Refuses a home in use: its store is being written, and its express messages are elsewhere."""
    home = directory.parent if directory.name == STORE else directory
    try:
        lock = lock_home(home)
    except ServiceNotAvailable as error:
        refusal = ServiceNotAvailable(
            f"{error.cause}: the check would miss what it writes",
            f"Stop it first, or look at a copy: posthouse backup DIR --home {home}, then "
            "posthouse doctor --store DIR. To see the health of a running queue manager: "
            f"posthouse status --home {home}.",
        )
        if not json:
            raise refusal from None
        print_json({"healthy": None, "in_use": True, "error": str(refusal)})
        raise typer.Exit(DAMAGED) from None
    try:
        yield
    finally:
        os.close(lock)


def store_directory(home: Path) -> Path:
    """The store of a home; a store itself will do."""
    inside = home / STORE
    directory = inside if inside.is_dir() else home
    if not any(directory.glob("*.log")):
        raise InvalidParameter(f"{home} holds no store", "Name the home of a queue manager.")
    return directory


def _check(directory: Path, json: bool) -> None:
    disk = RealDisk(directory, read_only=True)
    try:
        report = check(disk)
    finally:
        disk.close()
    if json:
        print_json({"healthy": report.healthy, **msgspec.structs.asdict(report)})
    else:
        _tell(report)
    raise typer.Exit(0 if report.healthy else DAMAGED)


def _tell(report: Report) -> None:
    say(
        f"{report.segments} segments, {report.bytes:,} bytes: {report.records_good:,} good records,"
        f" {report.records_bad:,} bad; {report.messages:,} messages."
    )
    for note in report.notes:
        say(f"Note: {note}.")
    for problem in report.problems:
        say(f"{problem.file}, offset {problem.offset}: {problem.reason}.")
        say(f"  What to do: {problem.remedy}.")
    say("The store is healthy." if report.healthy else "The store is damaged.")


def _export(directory: Path, target: Path, json: bool) -> None:
    if target.exists() and any(target.iterdir()):
        raise InvalidParameter(f"{target} is not empty", "Name a new folder.")
    disk, out = RealDisk(directory, read_only=True), RealDisk(target)
    try:
        exported = export(disk, out)
    finally:
        disk.close()
        out.close()
    if json:
        print_json(exported._asdict())
    else:
        _tell_export(exported, target)


def _tell_export(exported: Exported, target: Path) -> None:
    messages = counted(exported.messages, "message")
    say(f"Exported {messages} ({exported.bytes:,} bytes of packets) to {target}.")
    if exported.unreadable_records:
        say(f"{counted(exported.unreadable_records, 'record')} could not be read.")
    if exported.uncertain:
        say(
            f"{counted(exported.uncertain, 'message')} written just before the damage may already"
            " have been received (`certain` is false in their lines)."
        )


def _accept(directory: Path, segment: str, json: bool) -> None:
    number = segment.removesuffix(".log")
    if not number.isascii() or not number.isdigit() or len(number) > 10:
        raise InvalidParameter(
            f"{segment} is not a segment", f"Name a file like {segment_name(1)}."
        )
    disk = RealDisk(directory)
    try:
        loss = accept_loss(disk, int(number), datetime.now(UTC).isoformat(timespec="seconds"))
    except NotPossible as error:
        raise CommandFailed(f"Nothing was changed: {error}", exit_code=DAMAGED) from None
    finally:
        disk.close()
    if json:
        print_json(loss)
    else:
        _tell_loss(loss)
    raise typer.Exit(0 if loss.store_starts else DAMAGED)


def _tell_loss(loss: Loss) -> None:
    for reason in loss.reasons:
        say(f"{loss.segment}, {reason}.")
    say(
        f"{loss.records:,} records were given up, {len(loss.messages):,} of them known messages;"
        f" {JOURNAL_NAME} in the store lists them."
    )
    if loss.kept_as:
        say(f"The damaged file is kept as {loss.kept_as}.")
    say("The store starts again." if loss.store_starts else f"Still wrong: {loss.still_wrong}.")
