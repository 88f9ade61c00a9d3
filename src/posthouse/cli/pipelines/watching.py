"""`posthouse pipeline watch`: rules of an operator over queues, and alarms. It needs no Spark."""

from __future__ import annotations

import json as json_text
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
from posthouse.cli.output import complain, print_json, say
from posthouse.cli.pipelines.access import bulk_http, interruptible, need_arrow, reached

if TYPE_CHECKING:
    from posthouse.spark.watching.observations import Alarm, Look
    from posthouse.spark.watching.rules import Watcher


def register(inner: typer.Typer) -> None:
    """Add the command to `posthouse pipeline`."""
    inner.command("watch")(watch)


@talking
def watch(
    remote: Remote,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The rules, TOML."),
    ],
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="A page in HTML, written at each look."),
    ] = None,
) -> None:
    """Watch queues by rules, and raise alarms, until Ctrl-C. It only peeks.

    Rules: dead letters by cluster, the age of the oldest message, receive latency, a backlog that
    grows, requests without an answer, senders never seen before. Alarms are printed, and go to the
    log, the queue and the webhooks that FILE names. docs/spark.md describes the file.

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
        while True:
            look = _looked(sampler, once)
            alarms = [] if look is None else watcher.look(look)
            _tell(remote, alarms)
            for problem in delivery.deliver(alarms):
                complain(problem)
            raised = [*raised, *alarms][-1000:]
            _remember(state, watcher)
            if page is not None and look is not None:
                _write_page(page, look, raised)
            if once or stop.wait(plan.every_s):
                break
    if once and not remote.json:
        say(f"{len(raised)} alarms.")


def _looked(sampler: Any, once: bool) -> Look | None:
    """One look; None while the queue manager does not answer, which is said."""
    from posthouse.client.admin_http import AWAY

    try:
        found: Look = sampler.look(time.time())
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
    with suppress(FileNotFoundError):
        found: dict[str, list[str]] = json_text.loads(state.read_text(encoding="utf-8"))
        return found
    return {}


def _remember(state: Path | None, watcher: Watcher) -> None:
    from posthouse.spark.table_files import new_file
    from posthouse.spark.watching.rules import NewSenders

    if state is None:
        return
    known = {rule.name: list(rule.known) for rule in watcher.rules if isinstance(rule, NewSenders)}
    with new_file(state) as partial:
        partial.write_text(json_text.dumps(known), encoding="utf-8")


def _write_page(path: Path, look: Look, raised: list[Alarm]) -> None:
    """The queues now, and the last alarms, newest first."""
    from posthouse.spark.reports.page import Page
    from posthouse.spark.watching.delivery import alarm_json

    made = Page("Queues that are watched", "As of the last look; load the page again for another.")
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
