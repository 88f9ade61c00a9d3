"""`--watch` of lists: the command again and again, on a screen that is cleared each time."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from posthouse.cli.durations import duration, shown
from posthouse.cli.error_output import EXPECTED, UsageError, failure_of
from posthouse.cli.output import say

CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
SHORTEST_S: Final = 0.2
LONGEST_S: Final = 86_400.0
Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        metavar="DURATION",
        parser=duration(SHORTEST_S, LONGEST_S),
        help="Repeat the command at this interval, for example 2s, until Ctrl-C.",
    ),
]


def watchable(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option `--watch`."""
    signature = inspect.signature(command)
    option = inspect.Parameter(
        "watch", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Watch
    )

    def run(watch: float | None, **values: Any) -> None:
        if watch is None:
            command(**values)
        else:
            again_and_again(lambda: command(**values), watch, json=bool(values.get("json")))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def again_and_again(command: Callable[[], None], pause_s: float, *, json: bool) -> None:
    """Run it until Ctrl-C. An error ends it the first time, and is shown afterwards."""
    clears = not json and sys.stdout.isatty()
    first = True
    try:
        while True:
            if clears:
                sys.stdout.write(CLEAR)
                say(f"{time.strftime('%H:%M:%S')}, every {shown(pause_s)}; Ctrl-C ends it")
            elif not first and not json:
                say("")
            _once(command, first, json)
            sys.stdout.flush()
            first = False
            time.sleep(pause_s)
    except KeyboardInterrupt:
        return


def _once(command: Callable[[], None], first: bool, json: bool) -> None:
    try:
        command()
    except typer.Exit:
        pass  # the exit code is for who runs it once
    except EXPECTED as error:
        if first or isinstance(error, UsageError | BrokenPipeError):
            raise
        failure_of(error).tell(json=json)
