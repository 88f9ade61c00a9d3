"""`posthouse migrate pull`: messages of other machines are moved or copied here, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import typer

from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
from posthouse.cli.exit_codes import DONE, REFUSED
from posthouse.cli.migrate.machines import Machines, each_queue, machines
from posthouse.cli.migrate.sources import (
    Choice,
    FromInventory,
    MigrateSource,
    MigrateTarget,
    OnMachine,
    Reach,
    Shared,
    SourceQueue,
    WithDeadLetters,
    WithJournals,
)
from posthouse.cli.output import complain, partly, print_json, say
from posthouse.cli.progress import bar
from posthouse.client.errors import ClientConnectionError
from posthouse.client.remote.connect import LoginDenied
from posthouse.client.remote.pull.queue_pull import Interval, PullCounts, QueuePull
from posthouse.client.remote.pull.run import PullRun
from posthouse.client.remote.pull.verify import count_unreadable, unreadable_words
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.text import counted

PROGRESS_S: Final = 1.0
ALONE_S: Final = 3600.0  # of a queue that takes turns with no other
LOOK_THERE: Final = (
    "Before you switch that machine off, look at them there, or run the command again when no "
    "program locks them."
)
RATE_MAX: Final = 1_000_000
Keep = Annotated[bool, typer.Option("--keep", help="Copy: leave the messages at the source.")]
Follow = Annotated[
    bool, typer.Option("--follow", help="Continue, and pull new messages until Ctrl-C.")
]
Rate = Annotated[
    float,
    typer.Option(
        "--rate", metavar="N", min=0, max=RATE_MAX, help="Pull at most N messages per second."
    ),
]
Most = Annotated[
    int | None,
    typer.Option("--max", metavar="N", min=1, help="Stop after N messages of each queue."),
]


@talking
def pull(
    remote: Remote,
    source: MigrateSource = None,
    target: MigrateTarget = None,
    inventory: FromInventory = None,
    machine: OnMachine = None,
    journals: WithJournals = False,
    dead_letters: WithDeadLetters = False,
    keep: Keep = False,
    follow: Follow = False,
    rate: Rate = 0.0,
    most: Most = None,
    shared: Shared = False,
    *,
    reach: Reach,
) -> None:
    r"""Move messages of another machine's queues to queues here, each once; --keep copies them.

    A message is ended at the source when it is durable here, under the lookup id that it has there.
    So the command may be killed, and so may either queue manager: run it again, and it goes on.
    Body, extension, label, priority, times, class, sender and id stay what they are.

    Exit code 0: everything is here, 1: something was refused or is not in the inventory, 3: a
    machine was not reached, now or by the scan.

    Example: posthouse migrate pull 'winhost/private$/orders' --user 'CORP\me' < password.txt

    Example: posthouse migrate pull --inventory inventory.json --user 'CORP\me' < password.txt
    """
    if keep and follow:
        raise typer.BadParameter("--follow moves messages: leave --keep out")
    choice = Choice(source, target, inventory, machine, journals, dead_letters)
    queues = choice.queues(reach)
    with machines(reach) as found:
        pulling = Pulling(
            remote, found, reach.patience, keep=keep, shared=shared, rate=rate, most=most
        )
        gaps = choice.gaps()
        if follow:
            code = pulling.follow(queues)
        else:
            code = max(gaps, pulling.all(queues, alone=source is not None))
        if code:
            raise typer.Exit(code)


class Pulling:
    """Queues that are pulled one after the other, and what is shown of it."""

    def __init__(
        self,
        remote: Remote,
        found: Machines,
        patience_s: float,
        *,
        keep: bool = False,
        shared: bool = False,
        rate: float = 0.0,
        most: int | None = None,
    ) -> None:
        self._remote = remote
        self._machines = found
        self._patience_s = patience_s
        self._keep = keep
        self._shared = shared
        self._rate = rate
        self._most = most
        self._told: dict[SourceQueue, str] = {}  # the last error of each queue that is followed
        self._totals: dict[SourceQueue, int] = {}
        self._passed: dict[SourceQueue, set[int]] = {}  # of journals that are followed

    def all(self, queues: list[SourceQueue], *, alone: bool) -> int:
        """Each queue once; the exit code. `alone`: an error ends the command."""

        def work(queue: SourceQueue) -> bool:
            return self._one(queue, lambda: False)

        return each_queue(self._machines, queues, work, alone=alone)

    def follow(self, queues: list[SourceQueue]) -> int:
        """What comes late, from each queue by turns, until the command is interrupted.

        A machine that refuses the login is asked no further; where none is left, it ends with 1.
        """
        with suppress(KeyboardInterrupt):
            while followed := [queue for queue in queues if self._machines.has_turn(queue)]:
                for queue in followed:
                    if self._machines.has_turn(queue):
                        turn = Interval(PROGRESS_S if len(queues) > 1 else ALONE_S)
                        self._take_turn(queue, turn)
            return REFUSED
        return DONE

    def _take_turn(self, queue: SourceQueue, turn: Interval) -> None:
        """An error is told once, and the next turn tries again: a machine may be away for long."""
        try:
            self._one(queue, turn.lasts, quiet=True)
            self._told.pop(queue, None)
        except LoginDenied as error:
            self._machines.end_turn(queue, error)
            complain(f"{queue.place.host}: {error}")
        except (QueueError, RemoteProtocolError, ClientConnectionError) as error:
            if self._told.get(queue) != str(error):
                complain(f"{queue.label}: {error}")
            self._told[queue] = str(error)
            Interval(PROGRESS_S).wait()

    def _one(self, queue: SourceQueue, follow: Callable[[], bool], *, quiet: bool = False) -> bool:
        source = self._machines.source(queue, patient=not quiet)
        reader = self._machines.queue(queue, takes=not self._keep, shared=self._shared)
        run = PullRun(self._remote.client, source, queue.target, self._patience_s, keep=self._keep)
        run.begin()
        try:
            with self._shown(queue, quiet=quiet) as told:
                work = QueuePull(
                    reader,
                    run,
                    told=told,
                    away=partial(self._machines.is_away, queue),
                    patient=not quiet,
                    rate=self._rate,
                    limit=self._most,
                    passed=self._passed.setdefault(queue, set()),
                )
                stopped = partial(self._stopped, queue, work.counts)
                with partly(lambda: "", None if quiet else stopped):
                    counts = work.copy() if self._keep else work.move(follow=follow)
            unreadable = None if quiet or not work.is_whole else self._unreadable(queue, work)
        finally:
            reader.close()
            self._end(run)
        self._tell(queue, counts, quiet=quiet)
        if work.refusal is not None:
            complain(
                f"{queue.label}: {counted(counts.refused, 'message')} refused here and left there. "
                f"The first refusal: {work.refusal}"
            )
        if unreadable:
            complain(f"{queue.label}: {unreadable_words(unreadable)}. {LOOK_THERE}")
        return work.refusal is None and not unreadable

    def _stopped(self, queue: SourceQueue, counts: PullCounts) -> str:
        total = self._totals.get(queue)
        of = f" of {total:,}" if total else ""
        verb = "copied" if self._keep else "moved"
        return (
            f"{queue.label}: {counts.taken + counts.known:,}{of} {verb}. Run it again to continue: "
            "no message is taken twice."
        )

    def _unreadable(self, queue: SourceQueue, work: QueuePull) -> int | None:
        """Messages that the machine counts after the pull, and does not give."""
        count = partial(self._machines.count, queue)
        return count_unreadable(count, work.readable, work.left)

    def _end(self, run: PullRun) -> None:
        """Ends with the session as well, so a failure here is not one of the pull."""
        try:
            run.end()
        except (QueueError, ClientConnectionError):
            return

    @contextmanager
    def _shown(self, queue: SourceQueue, *, quiet: bool) -> Iterator[Callable[[PullCounts], None]]:
        total = self._totals[queue] = 0 if quiet else self._total(queue)
        due = Interval(PROGRESS_S)
        with bar(queue.target, total, quiet=self._remote.json or quiet) as advance:

            def told(counts: PullCounts) -> None:
                advance(counts.read, total)
                if self._remote.json and due.has_passed():
                    print_json(self._line(queue, "running", counts))

            yield told

    def _total(self, queue: SourceQueue) -> int:
        """How many there are, as far as the machine answers that."""
        if queue.messages is not None:
            return queue.messages
        return self._machines.count(queue) or 0

    def _line(self, queue: SourceQueue, state: str, counts: PullCounts) -> dict[str, Any]:
        return {
            "host": queue.place.host,
            "source": str(queue.name),
            "target": queue.target,
            "state": state,
            **msgspec.structs.asdict(counts),
        }

    def _tell(self, queue: SourceQueue, counts: PullCounts, *, quiet: bool) -> None:
        if quiet and counts.read == counts.stay:
            return
        if self._remote.json:
            print_json(self._line(queue, "done", counts))
            return
        verb = "copied" if self._keep else "moved"
        known = f"; {counts.known:,} were already here" if counts.known else ""
        stay = f"; {counts.stay:,} stay there, put there by pulls" if counts.stay else ""
        messages = counted(counts.taken, "message")
        say(f"{queue.label}: {verb} {messages} to {queue.target}{known}{stay}.")
