"""`posthouse demo`: shows the program at work and checks its books."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from posthouse.cli.demo.http_orders import Posted
from posthouse.cli.demo.pipeline import Piped, spark_is_there
from posthouse.cli.demo.public_queue import Named
from posthouse.cli.demo.steps import Audience, Report, demonstrate
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.exit_codes import WRONG_USAGE
from posthouse.cli.output import complain, print_json, print_table, safe, say
from posthouse.model.extras import install

STEPS = ("sending", "delivering", "receiving", "posting", "Spark")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Installation")(demo)


def demo(
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Folder for the data (default: a new temporary folder)."),
    ] = None,
    orders: Annotated[
        int, typer.Option("--orders", min=200, max=1_000_000, help="Number of orders to send.")
    ] = 10_000,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark", help="Run the Spark part too (default: if Spark is installed)."
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report as one line of JSON.")
    ] = False,
) -> None:
    """Run two queue managers, kill one under load, deliver orders, process them with Spark.

    The exit code is 0 only if no acknowledged message was lost, none came twice and the books
    balance. The servers are stopped at the end; the data stays.

    Example: posthouse demo --orders 2000
    """
    if home is not None and home.exists() and any(home.iterdir()):
        raise CommandFailed(
            f"{home} is not empty", "Name a new folder, or leave --home out.", exit_code=WRONG_USAGE
        )
    spark = _spark(spark)
    place = (home or Path(tempfile.mkdtemp(prefix="posthouse-demo-"))).absolute()
    try:
        with _stopped_by_signals():
            report = _run(place, orders, spark=spark, quiet=json)
    except Exception:
        complain(f"The demonstration broke off. Data and logs are in {place}.")
        raise
    except BaseException:  # stopped by the user: keep nothing
        if home is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if json:
        print_json(_values(report))
    else:
        _show(report)
    if not report.sound:
        complain("This is not as it should be. Please report it with the folder named above.")
        raise typer.Exit(1)


def _spark(wanted: bool | None) -> bool:
    there = spark_is_there()
    if wanted and not there:
        raise CommandFailed(
            "Spark is not installed", f"Install it with: {install('spark')}", exit_code=WRONG_USAGE
        )
    if wanted is None and not there:
        complain(f"The pipeline is left out, since Spark is not installed: {install('spark')}")
    return there if wanted is None else wanted


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """So that the servers are stopped too: on their own they would stay."""
    stopping = (signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, lambda got, _: sys.exit(128 + got)) for each in stopping}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _run(home: Path, orders: int, *, spark: bool, quiet: bool) -> Report:
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, quiet=quiet, highlight=False)
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        tasks = {step: bars.add_task(step, start=False, visible=False) for step in STEPS}

        def progress(step: str, done: int, total: int) -> None:
            bars.start_task(tasks[step])
            bars.update(tasks[step], completed=done, total=total, visible=True)

        audience = Audience(lambda t: console.print(Text(safe(t))), progress)
        return demonstrate(home, orders, audience, spark=spark)


def _values(report: Report) -> dict[str, object]:
    return {
        "home": str(report.home),
        "addresses": report.addresses,
        "orders": report.orders,
        "kills": report.kills,
        "acknowledged_before_kill": report.acknowledged_before_kill,
        "in_flight_at_kill": report.in_flight_at_kill,
        "begun_again": report.begun_again,
        "restart_ms": report.restart_ms,
        "sent_per_second": report.sent_per_second,
        "shared_transactions": report.shared_transactions,
        "undone": report.undone,
        "over_the_wire": report.over_the_wire,
        "delivered": report.delivered,
        "delivered_per_second": report.delivered_per_second,
        "received_per_second": report.received_per_second,
        "posted": report.posted,
        "named": report.named,
        "arrived": [each._asdict() for each in report.arrived],
        "journaled": report.journaled,
        "in_order": report.in_order,
        "dead_letters": report.dead_letters,
        "serviced": None if report.serviced is None else report.serviced._asdict(),
        "piped": report.piped,
        "books": report.books,
        "sound": report.sound,
    }


def _show(report: Report) -> None:
    say("")
    print_table("What happened", ("step", "result"), _steps(report))
    say("")
    print_table(
        "What arrived at BETA",
        ("shop", "orders", "amount", "each once, in order"),
        (
            (each.shop, f"{each.orders:,}", f"{each.amount:,}", _yes(each.in_order))
            for each in report.arrived
        ),
    )
    say("")
    if report.piped:
        _show_piped(report.piped)
        say("")
    _show_books(report)
    say("")
    _show_places(report)


def _steps(report: Report) -> Iterator[tuple[str, str]]:
    yield "sent to ALPHA by 4 clients", f"{report.sent_per_second:,}/s, the kill included"
    yield "  kill -9 of ALPHA", f"{report.kills}"
    yield "  acknowledged before", f"{report.acknowledged_before_kill:,} orders"
    yield "  in flight then", f"{report.in_flight_at_kill} transactions"
    yield "  begun again by the clients", f"{report.begun_again} transactions"
    yield "  start after it", f"{report.restart_ms:,} ms"
    yield "transactions over both managers", f"{report.shared_transactions}"
    yield "  one given up left no trace", _yes(report.undone)
    yield "delivered to BETA over the binary protocol", f"{report.delivered_per_second:,}/s"
    yield "  sent, and acknowledged by BETA", f"{report.over_the_wire:,}, {report.delivered:,}"
    yield "received at BETA", f"{report.received_per_second:,}/s"
    if report.posted:
        yield "posted to BETA over HTTP", f"{report.posted.per_second:,}/s"
        yield "  sent, acknowledged, received", _letters(report.posted)
    if report.named:
        yield f"sent to {report.named.path or 'nowhere'}, by its label", _claims(report.named)
    yield "kept in the journal of ALPHA", f"{report.journaled:,} orders"
    for reason, count in report.dead_letters.items():
        yield f"dead letters: {reason}", f"{count}"
    if report.serviced:
        yield f"job {report.serviced.number} for Spark", report.serviced.outcome
        yield "  counted by it", f"{report.serviced.orders:,} orders"
    if report.piped:
        yield "through Spark", f"{report.piped.seconds:.0f} s"
        yield "  archived as Parquet", f"{report.piped.archived:,} orders"
        for reason, count in report.piped.reasons.items():
            yield f"  dead letters: {reason}", f"{count}"


def _claims(named: Named) -> str:
    counts = f"{named.sent:,} sent, {named.received:,} received"
    return f"{counts}; each once, in order: {_yes(named.in_order)}"


def _letters(posted: Posted) -> str:
    counts = f"{posted.sent:,}, {posted.delivered:,}, {posted.received:,}"
    return f"{counts}; each once, in order: {_yes(posted.in_order)}"


def _show_piped(piped: Piped) -> None:
    print_table(
        "Who bought most, by Spark",
        ("customer", "orders", "amount"),
        ((each.customer, f"{each.orders:,}", f"{each.amount:,}") for each in piped.customers),
    )


def _show_books(report: Report) -> None:
    columns = ("accepted", "waiting", "locked", "received", "expired", "purged")
    print_table(
        "Books: accepted = waiting + locked + received + expired + purged",
        ("queue", *columns, "balanced"),
        (
            (
                books.queue,
                *(f"{getattr(books, column):,}" for column in columns),
                _yes(books.balanced),
            )
            for each in report.books.values()
            for books in each.books
            if books.accepted
        ),
    )


def _show_places(report: Report) -> None:
    for name, address in report.addresses.items():
        say(f"{name} served API and metrics at {address}; its files: {report.home / name.lower()}")
    if report.piped:
        say(f"Orders as Parquet: {report.piped.lake}; by customer: {report.piped.table}")
    home = shlex.quote(str(report.home / "alpha"))
    say("Both are stopped now. To look around, start one again:")
    say(f"  posthouse serve --home {home} &")
    say(f"  posthouse queue list --home {home}")


def _yes(fact: bool) -> str:
    return "yes" if fact else "NO"
