"""`posthouse`: puts the commands together and turns errors into exit codes.

Each noun has a file of its own with `register(app)`; adding one is a line in NOUNS. Only the file
of the command that was typed is loaded, so that each starts as fast as it can.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, cast

import typer

from posthouse import __version__
from posthouse.cli.output import complain, say
from posthouse.client.errors import CertificateNotTrusted, ClientConnectionError
from posthouse.model.errors import QueueError, RemoteProtocolError

# The modules, in the order of the help, and the commands in each.
NOUNS = {
    "serve": ("serve",),
    "status": ("status", "books", "online", "offline"),
    "transaction": ("transaction",),
    "damage": ("damage",),
    "stage": ("stage",),
    "peer": ("peer",),
    "directory.command": ("directory",),
    "backup": ("backup", "restore"),
    "rename": ("rename",),
    "queues.command": ("queue",),
    "group": ("group",),
    "send": ("send",),
    "receive": ("receive", "peek"),
    "messages.command": ("message",),
    "messages.failures": ("failures",),
    "jobs.command": ("job",),
    "bindery": ("bindery",),
    "pipelines.command": ("pipeline",),
    "user": ("user",),
    "token": ("token",),
    "cert": ("cert",),
    "doctor": ("doctor",),
    "decode.command": ("decode",),
    "selftest": ("selftest",),
    "bench": ("bench",),
    "demo.command": ("demo",),
    "completion": ("completion",),
}

# Of click, or of the copy that typer brings along.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])

DONE = 0
REFUSED = 1
WRONG_USAGE = 2
NOT_REACHABLE = 3
TRUSTED = (
    "Set SSL_CERT_FILE to a PEM file with its certificate or that of its authority, and use a host "
    "name that is in the certificate."
)


@cache
def program(word: str = "") -> Any:
    """The command line; where the first word is known, only what it needs."""
    app = typer.Typer(
        name="posthouse",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(posthouse)
    known = [noun for noun, commands in NOUNS.items() if word in commands]
    for noun in known or NOUNS:
        import_module(f"posthouse.cli.{noun}").register(app)
    return typer.main.get_command(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"posthouse {__version__}")
        raise typer.Exit


def posthouse(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """A message queue manager for Linux that speaks MSMQ on the wire.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 not reachable.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    command = program(arguments[0] if arguments else "")
    try:
        outcome = command(args=list(arguments), prog_name="posthouse", standalone_mode=False)
        return outcome if isinstance(outcome, int) else DONE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except UsageError as error:
        _tell_usage(error)
        return WRONG_USAGE
    except typer.Abort:
        complain("Nothing was changed.")
        return REFUSED
    except QueueError as error:
        for words in (str(error), *getattr(error, "__notes__", ())):
            complain(words)
        return REFUSED
    except RemoteProtocolError as error:
        complain(f"Not a valid packet: {error}")
        return REFUSED
    except CertificateNotTrusted as error:
        complain(f"Not reachable: {error.cause}. {TRUSTED}")
        return NOT_REACHABLE
    except ClientConnectionError as error:
        complain(f"Not reachable: {error}")
        return NOT_REACHABLE
    except (ConnectionError, TimeoutError) as error:
        complain(f"Not reachable: {error}. Is the queue manager running?")
        return NOT_REACHABLE
    except UnicodeError as error:
        complain(f"An argument or the input is no valid UTF-8: {error}")
        return WRONG_USAGE
    except OSError as error:
        complain(f"{error.filename or 'input/output'}: {error.strerror or error}")
        misnamed = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
        return WRONG_USAGE if misnamed else REFUSED


def _tell_usage(error: Any) -> None:
    """What is wrong with a command line, in lines of ours: it may hold anything."""
    for line in error.format_message().splitlines():
        complain(line.replace("\t", "  "))
    for hint in _verbs(error):
        complain(hint)
    if error.ctx is not None:
        complain(f"See: {error.ctx.command_path} --help")


def _verbs(error: Any) -> Iterator[str]:
    """Commands that have the unknown first word as their verb, such as `queue list` for `list`."""
    found = re.fullmatch(r"No such command '([a-z-]+)'\.", error.format_message())
    if found is None or error.ctx is None or error.ctx.parent is not None:
        return
    from posthouse.cli.commands_page import commands

    verb = re.compile(f"posthouse [a-z]+ {found[1]}")
    names = [name for name, _ in commands(program(), "posthouse") if verb.fullmatch(name)]
    if names:
        yield f"Commands of that name: {', '.join(names)}."


def _open_closed_streams() -> None:
    """Streams that the caller closed: input is empty, output fails when something is printed.

    Nothing printed may seem to have been delivered, and no file or socket gets their numbers.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def main() -> None:
    """The entry point of the `posthouse` program."""
    _open_closed_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:  # and at the end of the process nothing is to be written either
        if not code and not isinstance(error, BrokenPipeError):
            complain(f"standard output: {error.strerror or error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or REFUSED
    sys.exit(code)


if __name__ == "__main__":
    main()
