"""`posthouse pipeline deadletters|latency|traffic|run`: reports, own pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from posthouse.cli.command import DryRun, interruptible, talking
from posthouse.cli.connection import Remote
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.output import print_json, print_table, say
from posthouse.cli.pipelines.access import (
    Master,
    Queues,
    bulk_http,
    need_spark,
    reached,
    running_spark,
    watched,
)
from posthouse.cli.progress import bar, spinner
from posthouse.model.text import counted

if TYPE_CHECKING:
    from posthouse.client.admin_http import BulkHttp
    from posthouse.spark.reports.dead_letters import DeadLetters, Resent
    from posthouse.spark.reports.latencies import Latencies
    from posthouse.spark.reports.traffic import Traffic
    from posthouse.spark.rows.values import Values

TOP: Final = 10
REPORT: Final = "report.html"


Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Folder for the tables as Parquet and the report as HTML."
    ),
]


def register(inner: typer.Typer) -> None:
    """Add the commands to `posthouse pipeline`."""
    for command in (deadletters, latency, traffic):
        inner.command()(command)
    inner.command("run")(run_file)


# -- dead letters


@talking
def deadletters(
    remote: Remote,
    out: Out = None,
    resend: Annotated[
        str | None,
        typer.Option(
            "--resend", metavar="CLUSTER", help="Send the messages of this cluster again."
        ),
    ] = None,
    queues: Queues = None,
    dry_run: DryRun = False,
    master: Master = None,
) -> None:
    """Report dead letters by reason, sender, queue and hour, in clusters with a remedy.

    Messages are not moved unless --resend names a cluster: its messages are sent to their first
    destination again and removed here. Without --queue, the system's dead letters are read.

    Example: posthouse pipeline deadletters --out ./deadletters
    """
    need_spark()
    from posthouse.spark.reports import dead_letters

    chosen = queues or list(dead_letters.QUEUES)
    with (
        reached(remote, "operate" if resend else "read") as place,
        running_spark("deadletters", master, quiet=remote.json) as spark,
    ):
        with spinner("Reading dead letters", quiet=remote.json):
            found = dead_letters.deadletters(spark, place.options, chosen)
        with found:
            if out is not None:
                _write_dead_letters(found, out)
            if resend is None:
                _tell_dead_letters(remote, found, out)
            else:
                with bulk_http(place) as http:
                    _tell_resent(remote, _resent(remote, found, resend, http, dry_run), dry_run)


def _write_dead_letters(found: DeadLetters, out: Path) -> None:
    from posthouse.spark.reports.common import deadletters_page

    found.write(out)
    deadletters_page(found).write(out / REPORT)


def _resent(
    remote: Remote, found: DeadLetters, cluster: str, http: BulkHttp, dry_run: bool
) -> Resent:
    with bar("Sending", 0, quiet=remote.json) as advance:
        return found.resend(cluster, http, dry_run=dry_run, progress=advance)


def _tell_resent(remote: Remote, done: Resent, dry_run: bool) -> None:
    if remote.json:
        print_json(done._asdict() | {"dry_run": dry_run})
    elif dry_run:
        say(f"Would resend {counted(done.matched, 'message')}; {done.refused:,} of them refused.")
    else:
        say(f"Resent {counted(done.done, 'message')}.")
        if done.gone:
            say(f"{done.gone:,} had left the queue before.")
    if done.refused:
        raise CommandFailed(f"{counted(done.refused, 'message')} refused: {done.error}")


def _tell_dead_letters(remote: Remote, found: DeadLetters, out: Path | None) -> None:
    tables = found.tables
    if remote.json:
        _print_tables(tables)
        return
    say(f"{counted(found.messages, 'dead letter')}.")
    _print("By reason", ("reason", "meaning", "messages", "first_seen"), tables["by_reason"])
    _print("By queue", ("destination", "messages", "first_seen"), tables["by_queue"])
    _print("By sender", ("sender", "source_queue_manager", "messages"), tables["by_sender"])
    columns = ("cluster", "reason", "messages", "destination", "shape", "remedy")
    _print("Clusters", columns, tables["clusters"])
    _print_contents(tables)
    _tell_where(out)


# -- latency


@talking
def latency(
    remote: Remote,
    out: Out = None,
    queues: Queues = None,
    master: Master = None,
) -> None:
    """Report times from send to arrival to receipt by route, as percentiles, and by hour.

    From waiting messages, journals, administration acknowledgments and reports of traced
    messages; without --queue from all queues that you may look into.

    Example: posthouse pipeline latency --out ./latency
    """
    need_spark()
    from posthouse.spark.queries.tables import told_queues
    from posthouse.spark.reports import latencies

    with (
        reached(remote) as place,
        running_spark("latency", master, quiet=remote.json) as spark,
    ):
        with spinner("Reading queues", quiet=remote.json), bulk_http(place) as http:
            chosen = queues or told_queues(http)
            found = latencies.latency(spark, place.options, chosen)
        with found:
            if out is not None:
                _write_latencies(found, out)
            _tell_latencies(remote, found, out)


def _write_latencies(found: Latencies, out: Path) -> None:
    from posthouse.spark.reports.common import latency_page

    found.write(out)
    latency_page(found).write(out / REPORT)


def _tell_latencies(remote: Remote, found: Latencies, out: Path | None) -> None:
    if remote.json:
        _print_tables(found.tables)
        return
    say(f"{counted(found.messages, 'message')}. Times are in seconds.")
    for leg, title in (
        ("to_arrival", "From send to arrival"),
        ("to_receipt", "From arrival to receipt"),
        ("in_all", "From send to receipt"),
    ):
        figures = tuple(f"{leg}_{name}" for name in ("p50", "p90", "p99", "max"))
        rows = [row for row in found.tables["by_route"] if row[figures[0]] is not None]
        _print(title, ("destination", "source", "messages", *figures), rows, leg)
    figures = tuple(f"in_all_{name}" for name in ("p50", "p90", "p99", "max"))
    columns = ("message_type", "exception_type", "messages", *figures)
    _print("By message type and exception", columns, _typed(found.tables["by_type"]), "in_all")
    _tell_where(out)


# -- traffic


@talking
def traffic(
    remote: Remote,
    out: Out = None,
    queues: Queues = None,
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="DIR", help="Read the messages of a lake instead."),
    ] = None,
    master: Master = None,
) -> None:
    """Report the messages in queues by queue, format, message type, exception and hour.

    Bodies and headers are decoded (docs/formats.md). Messages that cannot be decoded are listed
    with the reason. Without --queue, all queues that you may read are included, with their
    journals.

    Example: posthouse pipeline traffic --out ./traffic
    """
    if lake is not None and queues:
        raise typer.BadParameter("give --queue or --lake, not both")
    need_spark()
    from posthouse.spark.queries.tables import lake_loader, told_queues
    from posthouse.spark.reports import traffic as report

    with (
        reached(remote) as place,
        running_spark("traffic", master, quiet=remote.json) as spark,
    ):
        with spinner("Reading queues", quiet=remote.json), bulk_http(place) as http:
            if lake is not None:
                found = report.Traffic(lake_loader(lake)(spark))
            else:
                found = report.traffic(spark, place.options, queues or told_queues(http))
        with found:
            if out is not None:
                _write_traffic(found, out)
            _tell_traffic(remote, found, out)


def _write_traffic(found: Traffic, out: Path) -> None:
    from posthouse.spark.reports.common import traffic_page

    found.write(out)
    traffic_page(found).write(out / REPORT)


def _tell_traffic(remote: Remote, found: Traffic, out: Path | None) -> None:
    tables = found.tables
    if remote.json:
        _print_tables(tables)
        return
    say(f"{counted(found.messages, 'message')}, {found.unread:,} of them not readable.")
    _print("By queue", ("queue", "messages", "body_bytes", "last_seen"), tables["by_queue"])
    _print("By format", ("format", "messages", "body_bytes"), tables["by_format"])
    _print_contents(tables)
    _tell_where(out)


def _print_contents(tables: dict[str, list[Values]]) -> None:
    columns = ("message_type", "exception_type", "format", "messages")
    _print("By message type and exception", columns, _typed(tables["by_type"]))
    _print("Not readable", ("format", "why", "messages"), tables["unreadable"])


def _typed(rows: list[Values]) -> list[Values]:
    """The rows that name a type or an exception."""
    return [row for row in rows if row["message_type"] or row["exception_type"]]


def _tell_where(out: Path | None) -> None:
    if out is not None:
        say(f"The tables and the report are in {out}. Open {out / REPORT}.")


def _print_tables(tables: dict[str, list[Values]]) -> None:
    from posthouse.spark.rows.values import plain

    for name, rows in tables.items():
        for row in rows:
            print_json({"table": name, **plain(row)})


def _print(title: str, columns: Sequence[str], rows: list[Values], leg: str = "") -> None:
    """The first rows of a table; all of them are in the files."""
    if not rows:
        return
    from posthouse.spark.reports.page import shown

    titles = [column.removeprefix(f"{leg}_").replace("_", " ") for column in columns]
    cells = ([_short(shown(row[column])) for column in columns] for row in rows[:TOP])
    say("")
    print_table(title if len(rows) <= TOP else f"{title}: {TOP} of {len(rows):,}", titles, cells)


def _short(text: str, length_max: int = 200) -> str:
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


# -- pipelines of one's own


@talking
def run_file(
    remote: Remote,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="Python file with your pipeline."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Folder for its tables and checkpoints."),
    ] = Path(),
    follow: Annotated[bool, typer.Option("--follow", help="Run its streams until Ctrl-C.")] = False,
    master: Master = None,
) -> None:
    """Run a pipeline of your own: a Python file with functions decorated by posthouse.spark.flows.

    @reads(QUEUE) gives a function the messages, @table writes what it returns as Parquet and
    @sends(QUEUE) sends it. The code runs with your rights: run only files that you trust.

    Example: posthouse pipeline run examples/orders_flow.py --out ./orders
    """
    need_spark()
    from posthouse.spark.pipeline_runner import run

    with (
        reached(remote, "operate") as place,
        running_spark(file.stem, master, quiet=remote.json) as spark,
        interruptible() as stop,
        bar("Rows", 0, quiet=remote.json) as advance,
    ):
        done = run(
            file,
            out,
            spark=spark,
            options=place.options,
            follow=follow,
            progress=watched(advance),
            stop=stop,
        )
    if remote.json:
        for one in done:
            print_json(one._asdict())
    else:
        rows = ((one.name, one.kind, one.place, f"{one.rows:,}") for one in done)
        print_table("", ("step", "kind", "place", "rows"), rows)
