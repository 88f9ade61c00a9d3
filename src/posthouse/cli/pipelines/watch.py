"""`posthouse pipeline watch` and `audit`: alarms by rules, a table of events; without Spark."""

from __future__ import annotations

import json as json_text
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from posthouse.cli.command import interruptible, talking
from posthouse.cli.connection import Remote
from posthouse.cli.durations import duration
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.output import complain, print_json, say
from posthouse.cli.pipelines.access import (
    Queues,
    bulk_http,
    need_arrow,
    need_lake,
    reached,
)
from posthouse.model.errors import InvalidParameter

if TYPE_CHECKING:
    from posthouse.client.admin_http import BulkHttp
    from posthouse.spark.watching.observations import Alarm, Look
    from posthouse.spark.watching.rules import Watcher


def register(inner: typer.Typer) -> None:
    """Add the commands to `posthouse pipeline`."""
    inner.command("watch")(watch)
    inner.command("audit")(audit)
    inner.command("flow")(flow)


@talking
def watch(
    remote: Remote,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Rules, a TOML file."),
    ],
    once: Annotated[bool, typer.Option("--once", help="Check once and exit.")] = False,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="HTML page to write after each check."),
    ] = None,
) -> None:
    """Watch queues by rules, and raise alarms, until Ctrl-C. It only peeks.

    Rules: dead letters by cluster, the age of the oldest message, receive latency, a backlog that
    grows, requests without an answer, senders never seen before. Alarms are printed, and go to the
    log, the queue and the webhooks that FILE names. docs/pipelines.md describes the file.

    Example: posthouse pipeline watch examples/watch.toml --once
    """
    need_arrow()
    from posthouse.spark.watching.delivery import Delivery
    from posthouse.spark.watching.rules_file import read_plan
    from posthouse.spark.watching.sampling import Sampler

    plan = read_plan(file)
    state = Path(plan.state) if plan.state else None
    watcher = plan.watcher(_remembered(state))
    with (
        reached(remote, "operate" if plan.targets.queue else "read") as place,
        bulk_http(place) as http,
        interruptible() as stop,
    ):
        sampler, delivery = Sampler(http, plan.queues), Delivery(plan.targets, http)
        raised: list[Alarm] = []
        lost = False  # an alarm
        while True:
            look = _looked(sampler, once)
            alarms = [] if look is None else watcher.look(look)
            _tell(remote, alarms)
            for problem in delivery.deliver(alarms):
                complain(problem)
                lost = True
            raised = [*raised, *alarms][-1000:]
            _remember(state, watcher)
            if page is not None and look is not None:
                _write_page(page, look, raised, 0 if once else plan.every_s)
            if once or stop.wait(plan.every_s):
                break
    if once and not remote.json:
        say(f"Alarms: {len(raised)}.")
    if once and lost:
        raise typer.Exit(REFUSED)


def _looked(sampler: Any, once: bool) -> Look | None:
    """One look; None while the queue manager does not answer, which is said."""
    from posthouse.client.admin_http import AWAY

    try:
        found: Look = sampler.look()
    except AWAY as error:
        if once:
            raise
        complain(str(error))
        return None
    return found


def _tell(remote: Remote, alarms: list[Alarm]) -> None:
    from posthouse.spark.watching.delivery import alarm_json

    for alarm in alarms:
        found = alarm_json(alarm)
        if remote.json:
            print_json(found)
        else:
            say(f"{found['time']}  {alarm.rule}: {alarm.text}")


def _remembered(state: Path | None) -> dict[str, list[str]]:
    """The senders that rules have seen, by rule."""
    if state is None:
        return {}
    try:
        return msgspec.json.decode(state.read_bytes(), type=dict[str, list[str]])
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        raise InvalidParameter(
            f"the state of the watch in {state} cannot be read: {error}",
            "Put the file back, or delete it: then all senders are learned again.",
        ) from None


def _remember(state: Path | None, watcher: Watcher) -> None:
    from posthouse.spark.table_files import new_file
    from posthouse.spark.watching.rules import NewSenders

    if state is None:
        return
    known = {rule.name: list(rule.known) for rule in watcher.rules if isinstance(rule, NewSenders)}
    with new_file(state) as partial:
        partial.write_text(json_text.dumps(known), encoding="utf-8")


def _write_page(path: Path, look: Look, raised: list[Alarm], every_s: float) -> None:
    """The queues now, and the last alarms, newest first; it follows what is written next."""
    from posthouse.spark.reports.page import Page
    from posthouse.spark.watching.delivery import alarm_json

    moment = f"{datetime.fromtimestamp(look.now_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    every = f"; a look every {every_s:g} s, which this page follows" if every_s else ""
    made = Page(
        "Queues that are watched",
        f"As of {moment}{every}.",
        refresh_s=math.ceil(every_s),
        rest="the newest come first",
    )
    made.section("Queues")
    rows = [
        (one.queue, one.messages, 0.0 if one.oldest_s is None else look.now_s - one.oldest_s)
        for one in look.queues
    ]
    made.table(("queue", "messages", "age of the oldest, s"), rows)
    made.section("Alarms", "" if raised else "None.")
    found = [alarm_json(alarm) for alarm in reversed(raised)]
    made.table(
        ("time", "rule", "alarm"), [(one["time"], one["rule"], one["text"]) for one in found]
    )
    made.write(path)


@talking
def audit(
    remote: Remote,
    table: Annotated[
        Path,
        typer.Option(
            "--table", metavar="DIR", help="Delta table; it is created if it does not exist."
        ),
    ],
    queues: Queues = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Continue until Ctrl-C (default: until all events are written)."
        ),
    ] = False,
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="T",
            parser=duration(0.1),
            help="With --follow: time between two checks.",
        ),
    ] = 10.0,
) -> None:
    """Keep what became of messages in one Delta table, by message id. It consumes nothing.

    Journals, dead letters, and the acknowledgments and reports that --queue names, each an event:
    sent, received, dead, acknowledged, refused, traced. Without --queue all journals and dead
    letters. Rows are only ever added, each once, and are durable when the command has ended.

    Example: posthouse pipeline audit --table ./audit
    """
    need_lake()
    from posthouse.spark.lakes.audit import audit as run

    with reached(remote) as place, bulk_http(place) as http, interruptible() as stop:
        events = 0
        while True:
            done = run(http, queues or _telling(http), table)
            events += done.events
            if not follow or stop.wait(every):
                break
    if remote.json:
        print_json(done._asdict() | {"events": events})
    else:
        say(f"Events: {events:,}, of {done.queues:,} queues, in {table}.")


def _telling(http: BulkHttp) -> list[str]:
    """All journals, and the dead letters."""
    from posthouse.spark.queries.tables import listed_names

    journals = [f"{path};journal" for path in listed_names(http).values()]
    return [*journals, *(f".\\system$;{name}" for name in ("journal", "deadletter", "deadxact"))]


@talking
def flow(
    remote: Remote,
    page: Annotated[
        Path,
        typer.Option(
            "--page", metavar="FILE", help="HTML page to write; an existing one is replaced."
        ),
    ],
    queues: Queues = None,
) -> None:
    """Draw which computer and which queue feeds which, as a graph on a page. It only peeks.

    From what lies in queues, journals and dead letters: who sent it, and which message it answers.
    Without --queue all queues that you may look into.

    Example: posthouse pipeline flow --page flow.html
    """
    need_arrow()
    from posthouse.spark.queries.tables import listed_names
    from posthouse.spark.reports.flow import edges_of, flow_page, read_messages

    with reached(remote) as place, bulk_http(place) as http:
        named = queues or [*listed_names(http).values(), *_telling(http)]
        edges = edges_of(read_messages(http, named))
    flow_page(edges).write(page)
    if remote.json:
        for edge in edges:
            print_json(edge._asdict())
    else:
        say(f"Edges: {len(edges):,}, in {page}.")
