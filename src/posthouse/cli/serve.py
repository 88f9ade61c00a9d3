"""`posthouse serve`: runs a queue manager until it is told to stop."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from posthouse import __version__
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.output import print_json, print_pairs, say
from posthouse.cli.start_errors import opening
from posthouse.net.control_socket import default_home
from posthouse.runtime.ports import PortSet
from posthouse.runtime.serve import NotStarted, Options, run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Queue manager")(serve)


def serve(
    home: Annotated[
        Path | None,
        typer.Option(
            "--home",
            readable=False,  # checked when it is opened, with a better message
            help="Folder for all data (default: $POSTHOUSE_HOME, or ~/.local/share/posthouse).",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="File of settings (default: posthouse.toml in the home).",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Computer name. A home keeps the name of its first start (default: the host "
            "name).",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="ADDRESS", help="Address of the listeners (default: 127.0.0.1)."
        ),
    ] = None,
    ports: Annotated[
        PortSet | None,
        typer.Option(
            "--ports",
            help="Ports: standard (those of MSMQ), user (ports below 1024 plus 10,000), "
            "ephemeral (any free).",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            "--ready-file",
            metavar="FILE",
            help="File to write as JSON when every listener accepts connections.",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the same JSON as one line when ready."),
    ] = False,
) -> None:
    """Run a queue manager until SIGTERM or Ctrl-C.

    To stop, it closes its listeners, finishes calls in progress, cancels waiting reads and syncs.
    SIGHUP reopens the log, and reads certificates again that have changed. Exit code 1: another
    process uses the home, the name is not the one of the home (see posthouse rename), the store is
    damaged, or a port is in use. Exit code 2: wrong settings.

    Example: posthouse serve --home ./alpha --name ALPHA --ports ephemeral --ready-file alpha.json
    """
    # Here, because the HTTP libraries take longer to load than other commands take altogether.
    from posthouse.runtime.endpoints import standard_doors

    place = home or default_home()
    tell = _tell if json else _welcome if sys.stdout.isatty() else None
    options = Options(place, config, name, listen, ports, ready_file, __version__, tell)
    try:
        with opening(place, "Not started"):
            outcome = run(options, standard_doors)
    except NotStarted as error:
        raise CommandFailed(f"Not started: {error}", name="NOT_STARTED") from None
    if outcome.cause:
        raise CommandFailed(outcome.cause, exit_code=outcome.code, name="STOPPED")
    raise typer.Exit(outcome.code)


def _tell(ready: dict[str, object]) -> None:
    with suppress(OSError):  # the reader of our output is gone
        print_json(ready)
        sys.stdout.flush()


def _welcome(ready: dict[str, object]) -> None:
    """A few lines for who looks at a terminal; a service writes its log only."""
    endpoints = ready["endpoints"]
    assert isinstance(endpoints, dict)
    with suppress(OSError):
        say(f"{ready['name']} is ready: a Posthouse {ready['version']} queue manager.")
        log = ready["log"] or "standard error"
        print_pairs({"home": str(ready["home"]), "log": str(log), **endpoints})
        if ready["console"]:
            say(f"Console: {ready['console']} Sign in with: posthouse token create --role operate")
        say("Ctrl-C stops it.")
        sys.stdout.flush()
