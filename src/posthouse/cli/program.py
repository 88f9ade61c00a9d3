"""The command line as a whole: the commands put together, and errors turned into exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from copy import copy
from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Any

import typer

from posthouse import __version__
from posthouse.cli.error_output import EXPECTED, failure_of, wants_json
from posthouse.cli.exit_codes import DONE
from posthouse.cli.output import notes_as_json, say
from posthouse.cli.verbs import VerbGroup
from posthouse.model.interpreter import describe

# A line end inside a paragraph: not before an example, an indented line or an item of a list.
BROKEN_LINE = re.compile(r"(?<!\n)\n(?!\n|Example: |[ *-])")
HELP_NAMES = ["--help", "-h"]
# The modules, in the order of the help, and the commands in each.
NOUNS = {
    "serve": ("serve",),
    "status": ("status", "books", "online", "offline"),
    "top": ("top",),
    "transaction": ("transaction",),
    "damage": ("damage",),
    "stage": ("stage",),
    "lease": ("lease",),
    "peer": ("peer",),
    "directory.command": ("directory",),
    "backup": ("backup", "restore"),
    "definitions": ("definitions",),
    "rename": ("rename",),
    "context": ("context",),
    "queues.command": ("queue",),
    "machines.scan": ("scan",),
    "machines.exporter": ("exporter",),
    "migrate.command": ("migrate",),
    "group": ("group",),
    "send": ("send",),
    "receive": ("receive", "peek"),
    "messages.command": ("message",),
    "messages.failures": ("failures",),
    "messages.dead_letters": ("deadletters",),
    "operation": ("operation",),
    "jobs.command": ("job",),
    "bindery": ("bindery",),
    "pipelines.command": ("pipeline",),
    "user": ("user",),
    "token": ("token",),
    "cert": ("cert",),
    "config": ("config",),
    "audit": ("audit",),
    "doctor": ("doctor",),
    "decode.command": ("decode",),
    "selftest": ("selftest",),
    "bench": ("bench",),
    "demo.command": ("demo",),
    "completion": ("completion",),
}


@cache
def program(word: str = "") -> Any:
    """The command line; where the first word is known, only what it needs."""
    app = typer.Typer(
        name="posthouse",
        cls=VerbGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": HELP_NAMES},
    )
    app.callback()(posthouse)
    known = [noun for noun, commands in NOUNS.items() if word in commands]
    for noun in known or NOUNS:
        import_module(f"posthouse.cli.{noun}").register(app)
    app.command("help", hidden=True)(show_help)
    app.command("version", hidden=True)(show_version)
    command = typer.main.get_command(app)
    _plain_help(command)
    return command


def _plain_help(command: Any) -> None:
    """Help without types of Python, and with paragraphs that fill the width of the terminal.

    Values that no command can use are refused by all of them.
    """
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        else:
            _check_values(parameter)
        if parameter.param_type_name == "argument":
            _plain_argument(parameter, typer.Context(command))
    help_option = command.get_help_option(typer.Context(command, help_option_names=HELP_NAMES))
    if help_option is not None:
        help_option.metavar = ""
    if command.help:
        command.help = BROKEN_LINE.sub(" ", cleandoc(command.help))
    for inner in getattr(command, "commands", {}).values():
        _plain_help(inner)


def _check_values(parameter: Any) -> None:
    """Refuses empty paths, which are variables that are not set, and numbers too large to count to.

    An empty path would mean the current folder.
    """
    kind = copy(parameter.type)
    convert, is_path = kind.convert, hasattr(kind, "dir_okay")

    def checked(value: Any, param: Any, context: Any) -> Any:
        if is_path and value == "":
            raise typer.BadParameter("the path is empty; . is the current folder", context, param)
        found = convert(value, param, context)
        if isinstance(found, int) and found > sys.maxsize:
            raise typer.BadParameter(f"the largest value is {sys.maxsize}", context, param)
        return found

    kind.convert = checked
    parameter.type = kind


def _plain_argument(parameter: Any, context: typer.Context) -> None:
    """Typer writes `{PATH}` in the usage, and `<full_name>`, the parser, beside PATH."""
    usage = parameter.make_metavar(context, usage=True).strip("{}")
    parameter.get_usage_pieces = lambda _: [usage]
    if parameter.type.get_metavar(param=parameter, ctx=context) is None:
        parameter.type = copy(parameter.type)
        parameter.type.get_metavar = lambda **_: ""


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"posthouse {__version__} ({describe()})")
        raise typer.Exit


def show_version() -> None:
    """Print the version.

    Example: posthouse version
    """
    say(f"posthouse {__version__} ({describe()})")


def show_help(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="Command to explain (default: all)."),
    ] = None,
) -> None:
    """Print the help of a command, or of all.

    Example: posthouse help queue create
    """
    raise typer.Exit(run(program(words[0] if words else ""), [*(words or []), "--help"]))


def posthouse(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """A message queue manager for Linux that speaks MSMQ on the wire.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 not reachable.
    """


def run(command: Any, arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    json = wants_json(arguments)
    with notes_as_json(json):
        try:
            outcome = command(args=list(arguments), prog_name="posthouse", standalone_mode=False)
            return outcome if isinstance(outcome, int) else DONE
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else DONE
        except EXPECTED as error:
            return failure_of(error, arguments).tell(json=json)
