"""Options that select machines and the login for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, NamedTuple, ParamSpec, get_type_hints

import typer

from posthouse.cli.durations import duration
from posthouse.cli.output import safe
from posthouse.cli.remote_queue import PASSWORD_LENGTH_MAX, PasswordFile, read_secret
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
    typer.Option("--mechanism", help="How the user logs in (default: negotiate)."),
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


def places_of(hosts: list[str] | None, again: Path | None, epm_port: int) -> list[RemotePlace]:
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
    password = None
    if user is not None:
        password = read_secret() if password_file is None else _first_line(password_file)
    try:
        return login_of(user, password, authentication, mechanism or "negotiate")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        line = file.readline(PASSWORD_LENGTH_MAX + 2).rstrip("\r\n")
    if len(line) > PASSWORD_LENGTH_MAX:
        raise typer.BadParameter(f"a password has at most {PASSWORD_LENGTH_MAX} characters")
    return line


DEFAULT_EPM_PORT: Final = EPM_PORT
P = ParamSpec("P")


class Machines(NamedTuple):
    """The machines that a command asks, as whom, and for how long each of them."""

    places: list[RemotePlace]
    login: RemoteLogin
    timeout_s: float


_OPTIONS: Final = (
    ("again", Again, None),
    ("user", ScanUser, None),
    ("password_file", PasswordFile, None),
    ("timeout", PerMachine, 30.0),
    ("epm_port", EpmPort, DEFAULT_EPM_PORT),
    ("authentication", ScanLevel, None),
    ("mechanism", ScanMechanism, None),
)


def asking(command: Callable[Concatenate[Machines, P], None]) -> Callable[..., None]:
    """A command that asks machines, which it gets as its first argument.

    Its command line has the hosts and the options that name machines, user and times.
    """
    hints = get_type_hints(command, include_extras=True)
    _, *own = inspect.signature(command).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("hosts", kind, default=None, annotation=Hosts),
        *(one.replace(kind=kind, annotation=hints[one.name]) for one in own),
        *(inspect.Parameter(n, kind, default=value, annotation=of) for n, of, value in _OPTIONS),
    ]

    @wraps(command)
    def run(
        hosts: list[str] | None,
        again: Path | None,
        user: str | None,
        password_file: Path | None,
        timeout: float,
        epm_port: int,
        authentication: Authentication | None,
        mechanism: Mechanism | None,
        **values: Any,
    ) -> None:
        places = places_of(hosts, again, epm_port)
        whom = login(user, password_file, authentication, mechanism)
        command(Machines(places, whom, timeout), **values)  # type: ignore[call-arg]

    signature = inspect.Signature(parameters)
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    del run.__wrapped__
    return run
