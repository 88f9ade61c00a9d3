"""Commands that read a queue of another computer over remote read.

The options of this file select it; without them a command asks the queue manager here. A
`PUBLIC=`, `PRIVATE=` or `MACHINE=` name is looked up in the directory of the queue manager here.
Where that is asked, or `--home` or `--url` names it, the other computer is read in its name.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from posthouse.api.directory_names import QueuePlaceJson
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.output import complain, safe
from posthouse.client.remote.login import Authentication, Mechanism
from posthouse.model.names import (
    DirectName,
    FormatName,
    MachineName,
    PathName,
    PrivateName,
    PublicName,
    far_name_of,
    parse_name,
)
from posthouse.model.text import counted

if TYPE_CHECKING:
    from posthouse.client.msmq import RemoteQueueManager

PASSWORD_LENGTH_MAX = 256
_LOOKED_UP = PublicName, PrivateName, MachineName  # names that contain no host
TIMEOUT_S = 20.0

User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        help="Read a queue of another computer, such as Windows, as this user there, NAME or "
        "DOMAIN\\NAME. The password is read from standard input.",
    ),
]
RpcPort = Annotated[
    int | None,
    typer.Option(
        "--rpc-port",
        metavar="N",
        min=1,
        max=65535,
        help="Port of remote read on the other computer (default: its endpoint mapper is asked).",
    ),
]
Level = Annotated[
    Authentication | None,
    typer.Option(
        "--authentication",
        help="Protection of reads from another computer (default: none; with --user: privacy).",
    ),
]
Mechanisms = Annotated[
    Mechanism | None,
    typer.Option(
        "--mechanism",
        help="How the user logs in there (default: negotiate). Only kerberos needs no password: it "
        "takes a ticket of kinit.",
    ),
]


PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="File whose first line is the password."),
]

Machine = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="HOST",
        help="Ask another machine, such as Windows, by management calls; HOST or HOST:PORT.",
    ),
]
MachineUser = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        help="User of the other machine, NAME or DOMAIN\\NAME. The password is read from standard "
        "input.",
    ),
]


def is_here(name: str) -> bool:
    """Whether a name is that of a queue of the queue manager here."""
    parsed = parse_name(name)
    return isinstance(parsed, PathName) and parsed.computer == "."


def far_machine(machine: str | None, user: str | None, password_file: Path | None) -> str:
    """The machine that is meant; empty: the queue manager here."""
    if machine is None and (user is not None or password_file is not None):
        raise typer.BadParameter("--user and --password-file go with another machine's name")
    if machine == "":
        raise typer.BadParameter("the name of the machine is empty")
    return machine or ""


class Far(NamedTuple):
    """Options of several commands: another computer, and how its queues are read."""

    user: User = None
    rpc_port: RpcPort = None
    authentication: Level = None
    mechanism: Mechanisms = None

    @property
    def is_meant(self) -> bool:
        """Whether another computer is to be read."""
        return any(one is not None for one in self)

    @contextmanager
    def manager(self, remote: Remote, source: str) -> Iterator[RemoteQueueManager]:
        """The computer whose queue that is."""
        name = parse_name(source)
        host = _host(remote, source, name)
        works_for = remote.is_named or isinstance(name, _LOOKED_UP)
        try:
            from posthouse.client.msmq import msmq  # only here: it loads DCE/RPC

            manager = msmq(
                host,
                user=self.user,
                password=None if self.user is None else read_secret(self.mechanism),
                rpc_port=self.rpc_port,
                authentication=self.authentication,
                mechanism=self.mechanism or "negotiate",
                via=remote.client if works_for else None,
                timeout=TIMEOUT_S,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        with manager:
            yield manager
            if manager.in_doubt:
                complain(
                    f"{counted(manager.in_doubt, 'message')} in doubt: the other computer did not "
                    "confirm that it removed them, so they may arrive again."
                )

    def queue_name(self, source: str) -> str:
        """The format name of a queue there, whichever way it was written."""
        name = parse_name(source)
        if isinstance(name, PathName):
            return str(far_name_of(name))
        return str(name)


def _host(remote: Remote, source: str, name: FormatName | PathName) -> str:
    """The computer that a queue is on. One that is only in a directory is asked for there."""
    if isinstance(name, _LOOKED_UP):
        place = remote.ask(
            QueuePlaceJson, "GET", path_of("directory", "place"), query={"queue": source}
        )
        return place.hosts[0]
    if isinstance(name, DirectName):
        return name.host
    if isinstance(name, PathName) and name.computer != ".":
        return name.computer
    raise typer.BadParameter(
        "the name of the queue must have the computer, as in DIRECT=OS:host\\private$\\orders does"
    )


def read_secret(mechanism: Mechanism | None, file: Path | None = None) -> str:
    """Return the password of a login elsewhere: the first line of a file or of standard input.

    On a terminal it is asked for. Only Kerberos does without one.
    """
    if file is None and sys.stdin.isatty():
        line, where = getpass.getpass("Password: "), "your input"
    elif file is None:
        line, where = sys.stdin.readline(PASSWORD_LENGTH_MAX + 2), "standard input"
    else:
        with file.open(encoding="utf-8") as lines:
            line, where = lines.readline(PASSWORD_LENGTH_MAX + 2), safe(str(file))
    line = line.rstrip("\r\n")
    if len(line) > PASSWORD_LENGTH_MAX:
        raise typer.BadParameter(f"a password has at most {PASSWORD_LENGTH_MAX} characters")
    if not line and mechanism != "kerberos":
        raise typer.BadParameter(f"{where} holds no password")
    return line
