"""The command line as a whole: the commands put together, and errors turned into exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, cast

import typer

from posthouse import __version__
from posthouse.cli.exit_codes import DONE, NOT_REACHABLE, REFUSED, WRONG_USAGE
from posthouse.cli.output import complain, say
from posthouse.cli.verbs import VerbGroup
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

TRUSTED = (
    "Set SSL_CERT_FILE to a PEM file with its certificate or that of its authority, and use a host "
    "name that is in the certificate."
)


@cache
def program(word: str = "") -> Any:
    """The command line; where the first word is known, only what it needs."""
    app = typer.Typer(
        name="posthouse",
        cls=VerbGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(posthouse)
    known = [noun for noun, commands in NOUNS.items() if word in commands]
    for noun in known or NOUNS:
        import_module(f"posthouse.cli.{noun}").register(app)
    app.command("help", hidden=True)(show_help)
    app.command("version", hidden=True)(show_version)
    return typer.main.get_command(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"posthouse {__version__}")
        raise typer.Exit


def show_version() -> None:
    """Print the version.

    Example: posthouse version
    """
    say(f"posthouse {__version__}")


def show_help(
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...")] = None,
) -> None:
    """Print the help of a command, or of all.

    Example: posthouse help queue create
    """
    raise typer.Exit(run(program(words[0] if words else ""), [*(words or []), "--help"]))


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


def run(command: Any, arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
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
