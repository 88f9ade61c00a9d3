"""`posthouse pipeline conform|rehearse`: bodies against a schema, a new consumer's answers."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from posthouse.api.types import RoleWord
from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
from posthouse.cli.durations import duration
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import complain, print_json, print_table, say
from posthouse.cli.pipelines.access import Queues, bulk_http, need_arrow, need_lake, reached
from posthouse.cli.pipelines.lakes import StorageOptions, storage_options
from posthouse.cli.progress import bar, spinner
from posthouse.model.text import counted

if TYPE_CHECKING:
    from posthouse.client.admin_http import BulkHttp
    from posthouse.spark.conform.drift import Drift
    from posthouse.spark.conform.quarantine import Quarantined
    from posthouse.spark.rehearsal import Rehearsed

ROWS_SHOWN: Final = 100
LakeRead = Annotated[
    str | None,
    typer.Option("--lake", metavar="DIR", help="Read messages of this lake, not of queues."),
]


def register(inner: typer.Typer) -> None:
    """Add the commands to `posthouse pipeline`."""
    inner.command("conform")(conform)
    inner.command("rehearse")(rehearse)


# -- conform


@talking
def conform(
    remote: Remote,
    schema: Annotated[
        Path, typer.Argument(metavar="SCHEMA", dir_okay=False, help="Schema, a TOML file.")
    ],
    queues: Queues = None,
    lake: LakeRead = None,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            metavar="QUEUE",
            help="Move messages that do not fit there; ;NAME is a subqueue of their queue.",
        ),
    ] = None,
    learn: Annotated[
        bool,
        typer.Option("--learn", help="Write SCHEMA, which must not exist, from the messages."),
    ] = False,
    store: StorageOptions = None,
) -> None:
    """Hold bodies of messages against a schema: report what drifts, quarantine what does not fit.

    The schema lists fields by their paths in the decoded body, for XML, JSON and .NET objects
    (docs/pipelines.md). Messages stay where they are without --quarantine. The exit code is 1 if a
    message that does not fit was not moved. It needs no Spark.

    Example: posthouse pipeline conform orders.toml --queue orders --quarantine ';quarantine'
    """
    if not queues and lake is None:
        raise typer.BadParameter("name --queue or --lake")
    if lake is not None and quarantine is not None:
        raise typer.BadParameter("messages of a lake cannot be moved: leave --quarantine out")
    if learn and quarantine is not None:
        raise typer.BadParameter("--learn moves nothing: leave --quarantine out")
    if learn == schema.exists():
        wrong = f"{schema} exists" if learn else f"{schema} does not exist; --learn writes one"
        raise typer.BadParameter(wrong)
    _need(lake)
    from posthouse.spark.conform.drift import Drift, learned
    from posthouse.spark.conform.quarantine import Quarantined, lake_rows, queue_rows
    from posthouse.spark.conform.quarantine import quarantine as run
    from posthouse.spark.conform.schema import read_schema
    from posthouse.spark.table_files import new_file

    drift = None if learn else Drift(read_schema(schema))
    options = storage_options(store)
    done, named, text = Quarantined(), queues or [], ""
    role: RoleWord = "read" if quarantine is None else "operate"
    with (
        reached(remote, role) as place,
        bulk_http(place) as http,
        spinner("Looking", quiet=remote.json),
    ):
        if drift is not None and lake is None:
            done = run(http, drift, named, None if quarantine is None else _place(quarantine))
        else:
            found = queue_rows(http, named) if lake is None else lake_rows(lake, named, options)
            if drift is None:
                text = learned(found)
            else:
                for row in found:
                    drift.judge(row)
    if drift is None:
        with new_file(schema) as partial:
            partial.write_text(text, encoding="utf-8")
        say(f"The schema is in {schema}: {text.count('[[body]]'):,} kinds of bodies.")
        return
    _tell_drift(remote, drift, done)
    if drift.misfits > done.moved + done.gone:
        raise typer.Exit(REFUSED)


def _place(name: str) -> str:
    return name if name.startswith(";") else full_name(name)


def _need(lake: str | None) -> None:
    if lake is None:
        need_arrow()
    else:
        need_lake()


def _tell_drift(remote: Remote, drift: Drift, done: Quarantined) -> None:
    summary: dict[str, Any] = {
        "messages": drift.messages,
        "misfits": drift.misfits,
        "encrypted": drift.encrypted,
        **done._asdict(),
    }
    rows = drift.rows
    if remote.json:
        for row in rows:
            print_json({"table": "drift", **row._asdict()})
        print_json({"table": "summary", **summary})
        return
    columns = ("body", "what", "field", "expected", "found", "messages", "first", "last", "example")
    cells = (
        (
            *(row.body, row.kind, row.field, row.expected, row.found, f"{row.messages:,}"),
            *(_time(row.first_seen), _time(row.last_seen), str(row.example)),
        )
        for row in rows[:ROWS_SHOWN]
    )
    if rows:
        print_table("", columns, cells)
    if len(rows) > ROWS_SHOWN or drift.others:
        complain(f"{len(rows) - ROWS_SHOWN + drift.others:,} more; add --json to see them.")
    say(f"{drift.messages:,} messages; {drift.misfits:,} do not fit, {done.moved:,} were moved.")
    if drift.encrypted:
        complain(f"Not checked: {counted(drift.encrypted, 'encrypted message')}.")
    if done.gone:
        complain(f"Received by other readers meanwhile: {counted(done.gone, 'message')}.")
    if done.refused:
        complain(f"Could not move {counted(done.refused, 'message')}: {done.error}")


def _time(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")


# -- rehearse


@talking
def rehearse(
    remote: Remote,
    source: Annotated[
        str,
        typer.Argument(
            metavar="REQUESTS",
            parser=full_name,
            help="Queue with the requests, usually a journal: QUEUE;journal.",
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="SHADOW", parser=full_name, help="Queue for the copies.")
    ],
    answers: Annotated[
        str,
        typer.Option(
            "--answers",
            metavar="QUEUE",
            parser=full_name,
            help="Queue, or journal, with the answers of the old consumer.",
        ),
    ],
    new_answers: Annotated[
        str,
        typer.Option(
            "--new-answers",
            metavar="QUEUE",
            parser=full_name,
            help="Queue that the new consumer answers to; copies name it as response queue.",
        ),
    ],
    lake: LakeRead = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="FIELD",
            help="Field that may differ, such as body.SentAt or body.*Time; repeat it for several.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="T",
            parser=duration(0.0),
            help="Longest time to wait for answers after the last copy.",
        ),
    ] = 30.0,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, max=10_000, help="Largest number of requests."),
    ] = 1000,
    store: StorageOptions = None,
) -> None:
    """Send requests of the past to a new consumer, and compare its answers with the old ones.

    Copies of the requests go to SHADOW, where the new consumer reads. Answers are found by their
    correlation identifiers, and compared by label, type and the fields of the decoded body. With
    --lake, requests and old answers come from the lake. Nothing is received. The exit code is 1
    unless all answers are equal. It needs no Spark.

    Example: posthouse pipeline rehearse orders --to shadow --answers old --new-answers new
    """
    _need(lake)
    from posthouse.spark.conform.quarantine import lake_rows, queue_rows
    from posthouse.spark.rehearsal import Shadow
    from posthouse.spark.rehearsal import rehearse as run

    options = storage_options(store)

    def rows(http: BulkHttp, queue: str) -> Any:
        return queue_rows(http, [queue]) if lake is None else lake_rows(lake, [queue], options)

    with (
        reached(remote, "operate") as place,
        bulk_http(place) as http,
        bulk_http(place) as other,
        bar("Sending", 0, quiet=remote.json) as advance,
    ):
        done = run(
            http,
            rows(other, source),
            rows(other, answers),
            Shadow(to, new_answers, timeout),
            ignore=ignore or [],
            limit=limit,
            progress=advance,
        )
    _tell_rehearsed(remote, done)
    if not done.is_good:
        raise typer.Exit(REFUSED)


def _tell_rehearsed(remote: Remote, done: Rehearsed) -> None:
    from posthouse.spark.rehearsal import DIFFERS, EQUAL, EXTRA, MISSING, SILENT

    counts = {name: done.count(name) for name in (EQUAL, DIFFERS, MISSING, EXTRA, SILENT)}
    rest = {"encrypted": done.encrypted, "unasked": done.unasked}
    others = [one for one in done.compared if one.result not in (EQUAL, SILENT)]
    if remote.json:
        for one in others:
            found = one._asdict() | {"differences": [two._asdict() for two in one.differences]}
            print_json({"table": "requests", **found})
        print_json({"table": "summary", "requests": len(done.compared), **counts, **rest})
        return
    rows = []
    for one in others[:ROWS_SHOWN]:
        first = (one.request, one.label, one.result)
        rows += [
            (*first, two.field, _cell(two.old), _cell(two.new)) for two in one.differences
        ] or [(*first, "", counted(one.old, "answer"), counted(one.new, "answer"))]
    if rows:
        print_table("", ("request", "label", "result", "field", "old", "new"), rows)
    if len(others) > ROWS_SHOWN:
        complain(f"{counted(len(others) - ROWS_SHOWN, 'more request')}: add --json to see them.")
    words = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    say(f"{counted(len(done.compared), 'request')}: {words}.")
    if done.encrypted:
        complain(f"Left out: {counted(done.encrypted, 'encrypted request')}.")
    if done.unasked:
        complain(f"{counted(done.unasked, 'answer')} belong to no request of this rehearsal.")


def _cell(text: str | None) -> str:
    return "(none)" if text is None else text
