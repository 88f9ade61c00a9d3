"""`posthouse demo`: shows the program at work and checks its books."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from posthouse.cli.output import complain, print_json, print_table, say
from posthouse.runtime.demonstration import Report, demonstrate


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Installation")(demo)


def demo(
    home: Annotated[
        Path | None, typer.Option("--home", help="Keep the data there; default: a new folder.")
    ] = None,
    orders: Annotated[
        int, typer.Option("--orders", min=200, max=1_000_000, help="How many orders to send.")
    ] = 10_000,
    json: Annotated[bool, typer.Option("--json", help="The report as one line of JSON.")] = False,
) -> None:
    """Send orders, kill the sender, recover, read everything back and check the books.

    Ends with exit code 0 only if nothing acknowledged was lost, nothing came twice and the books
    balance.

    Example: posthouse demo --orders 2000
    """
    place = home or Path(tempfile.mkdtemp(prefix="posthouse-demo-"))
    if home is not None and home.exists() and any(home.iterdir()):
        complain(f"{home} is not empty. Name a new folder, or leave --home out.")
        raise typer.Exit(2)
    try:
        report = _run(place, orders, quiet=json)
    except BaseException:
        if home is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if json:
        print_json(_values(report))
    else:
        _show(report)
    if not report.sound:
        complain("The books do not balance. Please report this with the folder named above.")
        raise typer.Exit(1)


def _run(home: Path, orders: int, *, quiet: bool) -> Report:
    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, quiet=quiet)
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        tasks = {what: bars.add_task(what, total=orders) for what in ("sending", "receiving")}

        def progress(what: str, done: int, total: int) -> None:
            bars.update(tasks[what], completed=done, total=total)

        return demonstrate(home, orders, progress)


def _values(report: Report) -> dict[str, object]:
    return {
        "home": str(report.home),
        "orders": report.orders,
        "acknowledged_before_kill": report.acknowledged_before_kill,
        "found_after_kill": report.found_after_kill,
        "recovery_ms": round(report.recovery_ms, 1),
        "sent_per_second": round(report.sent_per_second),
        "received_per_second": round(report.received_per_second),
        "in_order": report.in_order,
        "dead_letters": report.dead_letters,
        "sound": report.sound,
    }


def _show(report: Report) -> None:
    say("")
    print_table(
        "What happened",
        ("step", "result"),
        (
            ("orders acknowledged before kill -9", f"{report.acknowledged_before_kill:,}"),
            ("orders found after recovery", f"{report.found_after_kill:,}"),
            ("recovery", f"{report.recovery_ms:.0f} ms"),
            ("sent, transactions of 50", f"{report.sent_per_second:,.0f}/s"),
            ("received, transactions of 200", f"{report.received_per_second:,.0f}/s"),
            ("each once and in order", "yes" if report.in_order else "NO"),
            *((f"dead letters: {why}", str(count)) for why, count in report.dead_letters.items()),
        ),
    )
    say("")
    print_table(
        "Books: accepted = waiting + received + expired + purged",
        ("queue", "accepted", "waiting", "received", "expired", "purged", "balanced"),
        (
            (
                name,
                str(books.accepted),
                str(books.waiting),
                str(books.received),
                str(books.expired),
                str(books.purged),
                "yes" if books.balanced else "NO",
            )
            for name, books in report.books.items()
            if books.accepted
        ),
    )
    say("")
    say(f"The data is in {report.home}; look at it with: posthouse doctor --store {report.home}")
