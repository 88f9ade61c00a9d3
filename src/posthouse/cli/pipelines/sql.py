"""`posthouse pipeline sql`: one statement, run by DuckDB if that is enough, else by Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.output import complain, json_line, print_table, safe, say
from posthouse.cli.pipelines.access import (
    Connect,
    EndpointAccess,
    Master,
    bulk_http,
    need_arrow,
    need_spark,
    reached,
    running_spark,
)
from posthouse.cli.pipelines.lakes import StorageOptions, storage_options, version_or_moment
from posthouse.cli.progress import spinner
from posthouse.model.extras import install

if TYPE_CHECKING:
    import pyarrow

    from posthouse.client.admin_http import BulkHttp
    from posthouse.spark.queries.tables import LiveTables
    from posthouse.spark.table_files import Frame

STANDARD: Final = "-"


class Engine(StrEnum):
    """What answers `pipeline sql`."""

    auto = "auto"
    duckdb = "duckdb"
    spark = "spark"


class Format(StrEnum):
    """How `pipeline sql` gives its rows."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def register(inner: typer.Typer) -> None:
    """Add the command to `posthouse pipeline`."""
    inner.command()(sql)


@talking
def sql(
    remote: Remote,
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="SQL statement, one SELECT.")
    ],
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="DIR", help="Lake that the table lake.messages reads."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="T",
            help="Read the lake as of this time (UTC), or this version of its table.",
        ),
    ] = None,
    store: StorageOptions = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Format of the rows (default: table).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write to this file; an existing one is replaced."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Largest number of rows in a table.")
    ] = 1000,
    engine: Annotated[
        Engine,
        typer.Option("--engine", help="Engine that answers; auto uses DuckDB where it can."),
    ] = Engine.auto,
    master: Master = None,
    connect: Connect = None,
) -> None:
    """Query queues, journals, dead letters and a lake with SQL. It only reads.

    Tables: queues.NAME, journals.NAME, system.journal, system.deadletter, system.deadxact,
    lake.messages; SHOW TABLES lists them. posthouse.MANAGER.NAME is a queue of one of several queue
    managers: name them with --url URL,URL. Only the tables in the statement are read. Put names
    with special characters, and whole path names, between backquotes. DuckDB answers plain
    statements about little data within a second; Spark answers all others, with the same result.

    Example: posthouse pipeline sql "SELECT label, count(*) FROM queues.orders GROUP BY label"

    Example: posthouse pipeline sql "SELECT * FROM posthouse.alpha.orders"
    """
    chosen = form or (Format.json if remote.json else Format.table)
    if chosen is Format.parquet and out is None:
        raise typer.BadParameter("Parquet needs a file: give --out FILE")
    if as_of is not None and lake is None:
        raise typer.BadParameter("--as-of needs --lake DIR: queues have no earlier versions")
    then = None if as_of is None else version_or_moment(as_of)
    options = storage_options(store)
    if engine is Engine.spark:
        need_spark()
    with (
        reached(remote) as place,
        bulk_http(place) as http,
        _tables(http, place, lake, then, options) as tables,
    ):
        wanted = limit + 1 if chosen is Format.table and out is None else None
        found = (
            None if engine is Engine.spark else _small(remote, statement, tables, engine, wanted)
        )
        if found is not None:
            _give(found, chosen, out, limit)
            return
        need_spark()
        from posthouse.spark.queries.query import sql as ask

        with running_spark(
            "sql", master, remote=connect, connects=True, quiet=remote.json
        ) as spark:
            with spinner("Asking", quiet=remote.json):
                frame = ask(spark, statement, tables, once=True)
            _give(frame, chosen, out, limit)


def _tables(
    http: BulkHttp,
    place: EndpointAccess,
    lake: str | None,
    then: int | datetime | None,
    options: dict[str, str] | None,
) -> LiveTables:
    """The tables of the queue manager, and of the lake that is named."""
    need_arrow()
    from posthouse.spark.queries.arrow_tables import LakeRows
    from posthouse.spark.queries.tables import LiveTables, lake_loader

    if lake is None:
        return LiveTables(http, place.options)
    load = lake_loader(lake, then, options)
    return LiveTables(http, place.options, load, LakeRows(lake, then, options))


def _small(
    remote: Remote, statement: str, tables: LiveTables, engine: Engine, rows_max: int | None
) -> pyarrow.Table | None:
    """What DuckDB answers; None where Spark has to."""
    from posthouse.spark.queries.small.answers import BYTES_MAX, answer, is_installed, refused
    from posthouse.spark.queries.small.tokens import NeedsSpark

    if not is_installed():
        if engine is Engine.duckdb:
            raise CommandFailed(
                f"DuckDB is not installed. Install it with: {install('lake')}",
                name="DUCKDB_NOT_INSTALLED",
            )
        return None
    try:
        with spinner("Asking", quiet=remote.json):
            size_max = BYTES_MAX if engine is Engine.auto else None
            return answer(statement, tables, bytes_max=size_max, rows_max=rows_max)
    except NeedsSpark as reason:
        if engine is Engine.duckdb:
            raise refused(reason) from None
        return None


def _give(frame: Frame, form: Format, out: Path | None, limit: int) -> None:
    if form is Format.table and out is None:
        _give_table(frame, limit)
    elif out is None or str(out) == STANDARD:
        _give_lines(frame, form)
    else:
        from posthouse.spark.table_files import write_file

        say(f"{write_file(out, frame, form.value):,} rows in {out}.")


def _give_table(frame: Frame, limit: int) -> None:
    from posthouse.spark.rows.values import names_of
    from posthouse.spark.table_files import first_rows, text_rows

    rows = list(islice(text_rows(first_rows(frame, limit + 1)), limit + 1))
    print_table("", names_of(frame), rows[:limit])
    if len(rows) > limit:
        complain(f"There are more than {limit:,} rows; use --limit, or --out FILE.")


def _give_lines(frame: Frame, form: Format) -> None:
    """Rows as they come. A terminal is shown nothing that it would obey."""
    from posthouse.spark.table_files import csv_lines, json_rows

    if form is Format.json:
        _say_all(json_line(row) for row in json_rows(frame))
    else:
        shown: Any = safe if sys.stdout.isatty() else str
        _say_all(shown(line) for line in csv_lines(frame))


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
