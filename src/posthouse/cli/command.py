"""Shared code of commands: options that name the queue manager, questions, word lists."""

from __future__ import annotations

import difflib
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Concatenate, ParamSpec, get_type_hints

import typer

from posthouse.cli.connection import Remote
from posthouse.cli.contexts import Target
from posthouse.cli.name_hints import MISNAMED, full_name, name_hints
from posthouse.cli.output import complain, safe
from posthouse.cli.verbs import VerbGroup
from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.guids import format_guid, parse_guid

P = ParamSpec("P")

Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="DIR",
        readable=False,  # checked when it is opened, with a better message
        help="Home of the queue manager on this machine (default: $POSTHOUSE_HOME, the context in "
        "use, or ~/.local/share/posthouse).",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Admin endpoint of a queue manager anywhere, such as http://host:8816 (default: "
        "$POSTHOUSE_URL).",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with the token for --url (default: $POSTHOUSE_TOKEN_FILE).",
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="Certificates to trust for an https URL, in PEM form (default: those of the system).",
    ),
]
ContextName = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="Name of a queue manager, see posthouse context (default: $POSTHOUSE_CONTEXT).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print each item as one line of JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")
]
QueuePath = Annotated[
    str,
    typer.Argument(
        metavar="PATH", parser=full_name, help="Name of a private queue, path name or format name."
    ),
]

_COMMON = (
    inspect.Parameter("home", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Home),
    inspect.Parameter("url", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Url),
    inspect.Parameter(
        "token_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=TokenFile
    ),
    inspect.Parameter("ca_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=CaFile),
    inspect.Parameter(
        "context", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ContextName
    ),
    inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json),
)
COMMON_NAMES = tuple(parameter.name for parameter in _COMMON)
"""The options of every command that talks to a queue manager."""


def talking(command: Callable[Concatenate[Remote, P], None]) -> Callable[..., None]:
    """A command that talks to a queue manager, which it gets as its first argument.

    Its command line has the options that select it, and `--json`; groups of options as `grouped`.
    """
    options = Options(command)

    @wraps(command)
    def run(
        home: Path | None,
        url: str | None,
        token_file: Path | None,
        ca_file: Path | None,
        context: str | None,
        json: bool,
        **values: Any,
    ) -> None:
        given = Target(home, url, token_file, ca_file)
        with Remote(given, context, json=json) as remote:
            try:
                command(remote, **options.together(values))  # type: ignore[call-arg]
            except MISNAMED as error:
                for hint in name_hints(remote, values, error):
                    error.add_note(hint)
                raise

    return _with_options(run, [*options.parameters[1:], *_COMMON])


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command of which some arguments are named tuples of options, as several commands have them.

    Its command line has the options.
    """
    options = Options(command)

    @wraps(command)
    def run(**values: Any) -> None:
        command(**options.together(values))

    return _with_options(run, options.parameters)


class Options:
    """The options of a command, those of its groups beside the others."""

    def __init__(self, command: Callable[..., None]) -> None:
        self.parameters: list[inspect.Parameter] = []
        self._groups: dict[str, Any] = {}
        hints = get_type_hints(command, include_extras=True)
        for one in inspect.signature(command).parameters.values():
            hint = hints[one.name]
            if isinstance(hint, type) and issubclass(hint, tuple):
                self._groups[one.name] = hint
                self.parameters += _options_of(hint)
            else:
                self.parameters.append(one.replace(annotation=hint))

    def together(self, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the command from the values of its options."""
        values = dict(values)
        for name, kind in self._groups.items():
            values[name] = kind(**{option: values.pop(option) for option in kind._fields})
        return values


def _options_of(kind: Any) -> list[inspect.Parameter]:
    hints, keyword = get_type_hints(kind, include_extras=True), inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=hints[name])
        for name, default in kind._field_defaults.items()
    ]


def _with_options(
    run: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """The function as typer sees it: with these parameters."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def group(app: typer.Typer, name: str, panel: str, summary: str) -> typer.Typer:
    """A noun whose verbs are commands of their own."""
    inner = typer.Typer(cls=VerbGroup, no_args_is_help=True, help=summary)
    app.add_typer(inner, name=name, rich_help_panel=panel)
    return inner


def confirm(question: Callable[[], str], yes: bool) -> None:
    """Asks on a terminal before something is destroyed; scripts are taken at their word."""
    if yes or not sys.stdin.isatty():
        return
    if not typer.confirm(safe(question()), err=True):
        raise typer.Abort


def words(text: str, allowed: Collection[str], what: str) -> list[str]:
    """A list of words separated by commas, each of them one of those allowed."""
    found = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in found:
        if word not in allowed:
            raise typer.BadParameter(
                f"{safe(repr(word))} is not {_article(what)} {what}. {_nearest(word, allowed)}"
            )
    return found


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _nearest(word: str, allowed: Iterable[str]) -> str:
    near = difflib.get_close_matches(word[:32], list(allowed), 1, 0.6)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{hint}There are {', '.join(allowed)}."


def guid(text: str) -> str:
    """A GUID as the API takes it."""
    try:
        return format_guid(parse_guid(text))
    except IllegalPropertyValue as error:
        raise typer.BadParameter(safe(error.cause)) from None


@contextmanager
def interruptible(words: str = "Stopping after this batch.") -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event: what has begun is finished. A second one ends at once.

    To be entered when Spark runs, if it is used: it has a handler of its own, which calls off every
    task.
    """
    told = threading.Event()

    def tell(number: int, frame: FrameType | None) -> None:
        if told.is_set():
            raise KeyboardInterrupt
        told.set()
        complain(f"{words} Press Ctrl-C again to stop at once.")

    before = {number: signal.signal(number, tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
