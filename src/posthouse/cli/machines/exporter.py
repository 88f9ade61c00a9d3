"""`posthouse exporter`: Prometheus metrics of MSMQ machines that have no agent."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable
from typing import Annotated

import typer

from posthouse.cli.command import grouped
from posthouse.cli.durations import duration
from posthouse.cli.machines.options import Asking, Hosts
from posthouse.cli.output import safe, say
from posthouse.client.remote.exporter import Exporter, ExporterServer
from posthouse.client.remote.login import RemoteLogin
from posthouse.model.text import counted


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("exporter", rich_help_panel="Other machines")(exporter)


@grouped
def exporter(
    hosts: Hosts = None,
    *,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="ADDRESS:PORT", help="Address and port for Prometheus."),
    ] = "127.0.0.1:9817",
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="TIME",
            parser=duration(1, 86_400),
            help="Time between two scans of a machine.",
        ),
    ] = 60.0,
    asking: Asking,
) -> None:
    """Serve Prometheus metrics of MSMQ machines, such as Windows, without an agent on them.

    Each machine is scanned as by `posthouse scan`, once every --every. A scrape of /metrics shows
    the last result and does not wait. msmq_up is 0 for a machine that did not answer; empty
    queues are shown with 0. Runs until it is stopped. Not tried against Windows.

    A machine that refuses the login is not asked again with that password, so that the account is
    not locked: msmq_scan_problems has the kind "login" until --password-file holds another one.

    Example: posthouse exporter winhost1 winhost2 --user monitor --password-file password
    """
    places = asking.places(hosts)
    scans = Exporter(places, _logins(asking), every_s=every, timeout_s=asking.timeout)
    try:
        server = ExporterServer(_address(listen), scans)
    except OSError as error:
        raise typer.BadParameter(
            f"cannot listen at {safe(listen)}: {error.strerror or error}"
        ) from None
    _stop_with_signals(server)
    scans.start()
    host, port = server.server_address[:2]
    say(f"Metrics of {counted(len(places), 'machine')} at http://{host!s}:{port}/metrics")
    sys.stdout.flush()
    try:
        server.serve_forever(0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
        scans.stop()


def _logins(asking: Asking) -> Callable[[], RemoteLogin]:
    """The login of each turn: a password file may be replaced while the exporter runs."""
    login = asking.login()

    def again() -> RemoteLogin:
        nonlocal login
        if asking.password_file is not None:
            with contextlib.suppress(OSError, ValueError, typer.BadParameter):
                login = asking.login()
        return login

    return again


def _stop_with_signals(server: ExporterServer) -> None:
    """SIGTERM ends it as Ctrl-C does; a test in a thread has no signals."""
    if threading.current_thread() is threading.main_thread():
        stop = threading.Thread(target=server.shutdown, daemon=True)
        signal.signal(signal.SIGTERM, lambda number, frame: stop.start())


def _address(text: str) -> tuple[str, int]:
    host, found, port = text.rpartition(":")
    if not found or len(port) > 5 or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise typer.BadParameter(f"{safe(repr(text))} is not ADDRESS:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)
