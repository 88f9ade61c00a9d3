"""Options that select machines and the login for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from posthouse.cli.durations import duration
from posthouse.cli.output import safe
from posthouse.cli.remote_queue import PasswordFile, read_secret
from posthouse.client.msmq import login_of
from posthouse.client.remote.inventory import Inventory, read_inventory
from posthouse.client.remote.login import (
    EPM_PORT,
    Authentication,
    Mechanism,
    RemoteLogin,
    RemotePlace,
)
from posthouse.model.errors import InvalidParameter

PORT_MAX: Final = 65_535
HOSTS_MAX: Final = 10_000
INVENTORY_SIZE_MAX: Final = 256 << 20

Hosts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[HOST]...",
        help="Machines to ask, HOST or HOST:PORT. Without a port, the endpoint mapper of the "
        "machine is asked for it.",
    ),
]
Again = Annotated[
    Path | None,
    typer.Option(
        "--inventory", metavar="FILE", help="Also ask the machines of an earlier `scan --output`."
    ),
]
ScanUser = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        help="Administrator of the machines, NAME or DOMAIN\\NAME. The password is read from "
        "standard input, or asked for on a terminal.",
    ),
]
EpmPort = Annotated[
    int,
    typer.Option(
        "--epm-port", metavar="N", min=1, max=PORT_MAX, help="Port of the endpoint mapper."
    ),
]
ScanLevel = Annotated[
    Authentication | None,
    typer.Option(
        "--authentication", help="Protection of the calls (default: none; with --user: privacy)."
    ),
]
ScanMechanism = Annotated[
    Mechanism | None,
    typer.Option(
        "--mechanism",
        help="How the user logs in (default: negotiate). Only kerberos needs no password: it takes "
        "a ticket of kinit.",
    ),
]
PerMachine = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="TIME",
        parser=duration(0.1, 3600),
        help="Longest time for all answers of one machine.",
    ),
]


def places_of(
    hosts: list[str] | None, again: Path | None = None, epm_port: int = EPM_PORT
) -> list[RemotePlace]:
    """The machines that are named, each once."""
    named = list(hosts or [])
    if again is not None:
        named += _hosts_of(again)
    if not named:
        raise typer.BadParameter("name a machine, or an inventory with --inventory")
    if len(named) > HOSTS_MAX:
        raise typer.BadParameter(f"at most {HOSTS_MAX:,} machines are asked at a time")
    return list(dict.fromkeys([_place(host, epm_port) for host in named]))


def _hosts_of(again: Path) -> list[str]:
    return [
        machine.host if machine.port is None else f"{_bracketed(machine.host)}:{machine.port}"
        for machine in inventory_in(again).machines
    ]


def inventory_in(path: Path) -> Inventory:
    """The inventory in a file."""
    with path.open("rb") as file:
        data = file.read(INVENTORY_SIZE_MAX)
    try:
        return read_inventory(data)
    except ValueError as error:
        raise InvalidParameter(
            f"{path}: {error}", "Make it with: posthouse scan --output FILE"
        ) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _place(text: str, epm_port: int) -> RemotePlace:
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or (port and not _is_port(port)):
        raise typer.BadParameter(f"{safe(repr(text))} is neither HOST nor HOST:PORT")
    return RemotePlace(host, int(port) if port else None, epm_port)


def _is_port(text: str) -> bool:
    return len(text) <= 5 and text.isascii() and text.isdigit() and 0 < int(text) <= PORT_MAX


def login(
    user: str | None,
    password_file: Path | None,
    authentication: Authentication | None,
    mechanism: Mechanism | None,
) -> RemoteLogin:
    """As whom the machines are asked; a password is never an argument."""
    if password_file is not None and user is None:
        raise typer.BadParameter("--password-file goes with --user")
    password = None if user is None else read_secret(mechanism, password_file)
    try:
        return login_of(user, password, authentication, mechanism or "negotiate")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


MACHINE_S: Final = 30.0


class Asking(NamedTuple):
    """Options of several commands: machines, as whom they are asked, and for how long each."""

    again: Again = None
    user: ScanUser = None
    password_file: PasswordFile = None
    timeout: PerMachine = MACHINE_S
    epm_port: EpmPort = EPM_PORT
    authentication: ScanLevel = None
    mechanism: ScanMechanism = None

    def places(self, hosts: list[str] | None) -> list[RemotePlace]:
        """The machines, with those that are named themselves."""
        return places_of(hosts, self.again, self.epm_port)

    def login(self) -> RemoteLogin:
        """As whom they are asked; a password is asked for once."""
        return login(self.user, self.password_file, self.authentication, self.mechanism)
