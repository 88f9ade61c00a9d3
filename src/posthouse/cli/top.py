"""`posthouse top`: the busiest queues, live."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

import typer

from posthouse.api.types import QueueJson, StatusJson
from posthouse.cli.command import talking, words
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.durations import duration
from posthouse.cli.error_output import EXPECTED, failure_of
from posthouse.cli.output import print_json, print_table, say
from posthouse.cli.queues.listing import COLUMNS, Selection, all_queues, size
from posthouse.cli.watch_option import CLEAR, LONGEST_S, SHORTEST_S
from posthouse.model.text import counted

SHOWN: Final = ["queue", "messages", "bytes", "oldest", "in", "out"]
KEYS: Final = {
    "m": "messages",
    "b": "bytes",
    "o": "oldest",
    "i": "in",
    "u": "out",
    "n": "queue",
}
HELP: Final = "sort by m messages, b bytes, o oldest, i in, u out, n name; r reverse; q quit"
ROWS: Final = 20  # where the height of the screen is not known
HEAD: Final = 5  # lines that are not queues


class Totals(NamedTuple):
    """All queues together."""

    queues: int
    messages: int
    bytes: int
    in_per_s: float
    out_per_s: float


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Queue manager")(top)


@talking
def top(
    remote: Remote,
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="DURATION",
            parser=duration(SHORTEST_S, LONGEST_S),
            help="Time between two updates (default: 2s).",
        ),
    ] = 2.0,
    sort: Annotated[
        str,
        typer.Option("--sort", metavar="COLUMN", help=f"Order, one of: {', '.join(SHOWN)}."),
    ] = "messages",
    rounds: Annotated[
        int,
        typer.Option("--rounds", min=0, help="Exit after this many updates (default: until q)."),
    ] = 0,
    system: Annotated[
        bool, typer.Option("--system", help="Show journals and dead-letter queues too.")
    ] = False,
) -> None:
    """Show the busiest queues live, with what is wrong and the rates of the queue manager.

    On a terminal, keys change the order and q ends it. Without a terminal, or with --json, each
    look is printed after the last one.

    Example: posthouse top --sort oldest
    """
    order = words(sort, SHOWN, "column")
    if len(order) != 1:
        raise typer.BadParameter("--sort takes one column")
    look = Look(remote, system)
    selection = Selection(sort=order[0])
    live = sys.stdout.isatty() and sys.stdin.isatty() and not remote.json
    done = 0
    with _keys(live), contextlib.suppress(KeyboardInterrupt):
        while True:
            look.print(selection, live, first=not done)
            done += 1
            if rounds and done >= rounds:
                return
            key = _pressed(every, live)
            if key == "q":
                return
            selection = _ordered(selection, key)


def _ordered(selection: Selection, key: str) -> Selection:
    """The order after a key."""
    if key == "r":
        return selection._replace(reverse=not selection.reverse)
    return selection._replace(sort=KEYS[key], reverse=False) if key in KEYS else selection


class Look:
    """One look after the other at one queue manager."""

    def __init__(self, remote: Remote, system: bool) -> None:
        self._remote = remote
        self._system = system

    def print(self, selection: Selection, live: bool, *, first: bool) -> None:
        """Ask and show. An error ends it the first time, and is shown afterwards."""
        try:
            status = self._remote.ask(StatusJson, "GET", path_of("status"))
            queues = list(all_queues(self._remote, system=self._system))
        except EXPECTED as error:
            if first:
                raise
            failure_of(error).tell(json=self._remote.json)
            return
        ordered = list(selection.of(queues))
        totals = totals_of(queues)
        if self._remote.json:
            print_json({"status": status, "totals": totals._asdict(), "queues": ordered})
        else:
            self._print_screen(status, totals, ordered, live)
        sys.stdout.flush()

    def _print_screen(
        self, status: StatusJson, totals: Totals, queues: list[QueueJson], live: bool
    ) -> None:
        if live:
            sys.stdout.write(CLEAR)
        wrong = f", {counted(len(status.problems), 'problem')}" if status.problems else ""
        say(f"{status.name}  {status.state}{wrong}  {time.strftime('%H:%M:%S')}")
        say(
            f"{totals.queues:,} queues, {totals.messages:,} messages, {size(totals.bytes)}; "
            f"{totals.in_per_s:,.1f}/s in, {totals.out_per_s:,.1f}/s out"
        )
        for problem in status.problems[:1]:
            say(f"!  {problem}")
        if live:
            say(HELP)
        rows = _height() - HEAD - bool(status.problems) if live else ROWS
        shown = queues[: max(rows, 1)]
        columns = [COLUMNS[name] for name in SHOWN]
        print_table(
            "",
            [one.title for one in columns],
            ([one.shown(one.value(queue)) for one in columns] for queue in shown),
        )
        if len(queues) > len(shown):
            say(f"and {len(queues) - len(shown):,} more queues")


def totals_of(queues: list[QueueJson]) -> Totals:
    """The sums over all queues."""
    return Totals(
        len(queues),
        sum(queue.messages for queue in queues),
        sum(queue.bytes for queue in queues),
        sum(queue.accepted_per_s for queue in queues),
        sum(queue.received_per_s for queue in queues),
    )


def _height() -> int:
    try:
        return os.get_terminal_size().lines
    except OSError:
        return ROWS + HEAD


@contextlib.contextmanager
def _keys(live: bool) -> Iterator[None]:
    """While it lasts, keys are read one by one, and not shown."""
    if not live:
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(pause_s: float, live: bool) -> str:
    """The key that is pressed within the pause, if any."""
    if not live:
        time.sleep(pause_s)
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], pause_s)
    if not ready:
        return ""
    typed = os.read(sys.stdin.fileno(), 1)
    return typed.decode("ascii", "ignore").lower() if typed else "q"  # the terminal has gone
