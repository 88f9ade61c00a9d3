"""`posthouse pipeline`: queues into a lake and back, by Spark; reports and SQL over both."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, NoReturn

import typer

from posthouse.api.types import QueueJson
from posthouse.cli.command import DryRun, Json, group, interruptible, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.durations import duration
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import complain, print_json, print_table, say
from posthouse.cli.pipelines import checkpoints as pipeline_checkpoints
from posthouse.cli.pipelines import conform as pipeline_conforming
from posthouse.cli.pipelines import lakes as pipeline_lakes
from posthouse.cli.pipelines import reports as pipeline_reports
from posthouse.cli.pipelines import sql as pipeline_questions
from posthouse.cli.pipelines import watch as pipeline_watching
from posthouse.cli.pipelines.access import (
    Connect,
    Master,
    need_lake,
    need_spark,
    reached,
    running_spark,
    watched,
)
from posthouse.cli.pipelines.lakes import Lake, StorageOptions, moment, storage_options
from posthouse.cli.progress import bar
from posthouse.model.text import counted

if TYPE_CHECKING:
    from posthouse.spark.lakes.archiving import Archived
    from posthouse.spark.replay_map import MapFunction
    from posthouse.spark.replaying import Replayed

SEND_RATE_MIN: Final = 0.01
DAY_S: Final = 86_400.0
VALUE_SHOWN: Final = 400  # characters of a property before and after


class Pipeline(NamedTuple):
    """A pipeline as `pipeline list` shows it."""

    name: str
    does: str


PIPELINES: Final = (
    Pipeline("archive", "queues and journals into a lake, a Delta table, each message once"),
    Pipeline("replay", "messages of a lake back to queues, each once"),
    Pipeline("deadletters", "dead letters by reason, sender, queue and hour, in clusters"),
    Pipeline("latency", "times from send to arrival to receipt, by route, hour and message type"),
    Pipeline("traffic", "messages in queues by format and message type, and unreadable ones"),
    Pipeline("sql", "read-only SQL over live queues, journals, dead letters and a lake"),
    Pipeline("watch", "alarms by rules of yours: dead letters, ages, latency, answers, senders"),
    Pipeline("audit", "journals, receipts, traces and dead letters as one table of events"),
    Pipeline("flow", "which computer and which queue feeds which, as a graph on a page"),
    Pipeline("conform", "bodies against a schema: drift is reported, misfits are quarantined"),
    Pipeline("rehearse", "requests of the past to a new consumer, and its answers compared"),
    Pipeline("erase", "erases messages from a lake and all its older versions"),
    Pipeline("run", "a pipeline of your own, from a Python file"),
    Pipeline("settle", "acknowledges the last batch that an ended stream has committed"),
    Pipeline("checkpoint", "positions in a checkpoint, and their way to another group or name"),
)

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="Folder for its progress (default: in the lake)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    summary = "Spark pipelines: archive, replay, reports, SQL, your own."
    inner = group(app, "pipeline", "Data", summary)
    inner.command("list")(list_pipelines)
    inner.command("archive")(archive)
    inner.command("replay")(replay)
    inner.command("settle")(settle)
    pipeline_checkpoints.register(inner)
    pipeline_lakes.register(inner)
    pipeline_questions.register(inner)
    pipeline_watching.register(inner)
    pipeline_conforming.register(inner)
    pipeline_reports.register(inner)


def list_pipelines(json: Json = False) -> None:
    """List the pipelines. Each is a Python function in `posthouse.spark` too.

    Example: posthouse pipeline list
    """
    if json:
        for one in PIPELINES:
            print_json(one._asdict())
    else:
        print_table("", ("pipeline", "does"), PIPELINES)


@talking
def archive(
    remote: Remote,
    queues: Annotated[
        list[str],
        typer.Argument(
            metavar="QUEUE...",
            parser=full_name,
            help="Queue to archive; its journal is QUEUE;journal. Repeat it for several.",
        ),
    ],
    lake: Lake,
    consume: Annotated[
        bool,
        typer.Option(
            "--consume", help="Receive archived messages (default: leave them in their queues)."
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Continue until Ctrl-C (default: until all messages are archived)."
        ),
    ] = False,
    journals: Annotated[
        bool, typer.Option("--journals", help="Archive the journals of these queues too.")
    ] = False,
    group_name: Annotated[
        str,
        typer.Option("--group", metavar="NAME", help="Name of the group that --consume creates."),
    ] = "archive",
    every: Annotated[
        float,
        typer.Option(
            "--every",
            metavar="T",
            parser=duration(0.1),
            help="With --follow: time between two batches.",
        ),
    ] = 5.0,
    batch: Annotated[
        int,
        typer.Option(
            "--batch", metavar="N", min=1, help="Largest number of messages in one batch."
        ),
    ] = 250_000,
    allow_loss: Annotated[
        bool,
        typer.Option(
            "--allow-loss", help="Continue even if messages were purged before they were archived."
        ),
    ] = False,
    keep: Annotated[
        float | None,
        typer.Option(
            "--keep",
            metavar="T",
            parser=duration(DAY_S),
            help="Delete days from the lake that are older than this, such as 400d.",
        ),
    ] = None,
    checkpoint: Checkpoint = None,
    store: StorageOptions = None,
    master: Master = None,
    connect: Connect = None,
) -> None:
    """Copy queues and journals into a lake, a Delta table by queue and day, each message once.

    It ends when all messages that were there at the start are archived. After any interruption, the
    same command continues. Small files are combined on the way. Read a lake with `pipeline sql`,
    posthouse.spark.lake(DIR) or any program that reads Delta tables.

    Example: posthouse pipeline archive './private$/orders' --lake ./lake --consume
    """
    need_spark()
    need_lake()
    for queue in queues:  # before Spark is started for nothing
        remote.ask(QueueJson, "GET", path_of("queues", queue))
    from posthouse.spark import archive as run

    with (
        reached(remote, "operate" if consume else "read") as place,
        running_spark("archive", master, remote=connect, connects=True, quiet=remote.json) as spark,
        interruptible() as stop,
        bar("Archiving", 0, quiet=remote.json) as advance,
    ):
        done = run(
            queues,
            lake,
            url=place.url,
            token_file=place.token_file,
            consume=consume,
            follow=follow,
            journals=journals,
            group=group_name,
            checkpoint=checkpoint,
            spark=spark,
            max_messages=batch,
            every_s=every,
            fail_on_data_loss=not allow_loss,
            keep=None if keep is None else timedelta(seconds=keep),
            storage_options=storage_options(store),
            progress=watched(advance),
            stop=stop,
        )
    _tell_archived(remote, done)
    if done.stopped and not follow:
        _end_stopped()


def _end_stopped() -> NoReturn:
    complain("Stopped before the end. Run the same command again: it continues.")
    raise typer.Exit(REFUSED)


def _tell_archived(remote: Remote, done: Archived) -> None:
    if remote.json:
        print_json(done._asdict())
        return
    say(
        f"Archived {counted(done.messages, 'message')} in {done.seconds:,.1f} s: "
        f"batches {done.batches:,}, "
        f"files {done.files:,}, bytes {done.bytes:,}."
    )
    complain(f"The checkpoint is {done.checkpoint}.")


@talking
def replay(
    remote: Remote,
    lake: Lake,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DEST",
            help="Queue to send to; origin: the queues that the messages were in.",
        ),
    ] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="QUEUE=DEST|FILE.py:FUNCTION",
            help="Send messages of one queue of the lake to another queue; repeat it for several. "
            "FILE.py:FUNCTION: a Python function that changes each message, or leaves it out.",
        ),
    ] = None,
    accept_changed: Annotated[
        bool,
        typer.Option(
            "--accept-changed-map",
            help="Continue an interrupted replay although its function has changed.",
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="T", help="Only messages that arrived at this time or later (UTC)."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="T", help="Only messages that arrived before this time (UTC)."
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="SQL condition over the columns of a message."),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="COLUMN=VALUE",
            help="Set label, priority and such in every message; repeat it for several.",
        ),
    ] = None,
    same_ids: Annotated[
        bool,
        typer.Option(
            "--same-ids", help="Keep the message ids; for queues of this queue manager only."
        ),
    ] = False,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            metavar="N",
            min=SEND_RATE_MIN,
            help="Largest average number of messages per second.",
        ),
    ] = None,
    begin_again: Annotated[
        bool,
        typer.Option(
            "--begin-again",
            help="Begin although another replay of this lake to the same queue is unfinished.",
        ),
    ] = False,
    checkpoint: Checkpoint = None,
    master: Master = None,
    dry_run: DryRun = False,
) -> None:
    """Send messages of a lake again, each of them once, in their order.

    They are new messages with the same content, recoverable or transactional as their queue needs.
    Encrypted ones are left out. A replay that was cut off goes on with the same command; one that
    came to its end is begun again. With other options, the command is refused while a replay to the
    same queue is unfinished. A function gets a posthouse.spark.ReplayMessage and returns it,
    or None to leave it out. It runs in this command with your rights.

    Example: posthouse pipeline replay --lake ./lake --to origin --from 2026-01-31 --dry-run
    """
    need_spark()
    need_lake()
    mapping, function = _maps(maps or [])
    if accept_changed and function is None:
        raise typer.BadParameter("--accept-changed-map needs --map FILE.py:FUNCTION")
    changes = dict(_setting(text) for text in sets or [])
    times = [None if text is None else moment(text) for text in (since, until)]
    from posthouse.spark import replay as run

    with (
        reached(remote, "operate") as place,
        running_spark("replay", master, quiet=remote.json) as spark,
        interruptible() as stop,
        bar("Sending", 0, quiet=remote.json or dry_run) as advance,
    ):
        done = run(
            lake,
            to,
            mapping=mapping,
            since=times[0],
            until=times[1],
            where=where,
            changes=changes,
            function=function,
            accept_changed=accept_changed,
            same_ids=same_ids,
            rate=rate,
            dry_run=dry_run,
            begin_again=begin_again,
            url=place.url,
            token_file=place.token_file,
            checkpoint=checkpoint,
            spark=spark,
            progress=watched(advance),
            stop=stop,
        )
    _tell_replayed(remote, done)
    if done.stopped:
        _end_stopped()


def _setting(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not column or not equals:
        raise typer.BadParameter("--set is COLUMN=VALUE, such as label=again")
    return column, value


def _maps(texts: list[str]) -> tuple[dict[str, str], MapFunction | None]:
    """Destinations of queues, and the function, of which there is one at most."""
    from posthouse.spark.replay_map import is_function, load_function

    functions = [text for text in texts if is_function(text)]
    if len(functions) > 1:
        raise typer.BadParameter("--map takes one function: call the others from it")
    mapping = dict(_pair(text) for text in texts if text not in functions)
    return mapping, load_function(functions[0]) if functions else None


def _pair(text: str) -> tuple[str, str]:
    # Format names have an equals sign themselves: DIRECT=OS:...
    queue, _, destination = text.partition("=")
    if not queue or not destination:
        raise typer.BadParameter(
            "--map is QUEUE=DEST, such as './private$/orders=./private$/old', or FILE.py:FUNCTION"
        )
    return queue, destination


def _tell_replayed(remote: Remote, done: Replayed) -> None:
    if remote.json:
        parts = {
            name: [one._asdict() for one in getattr(done, name)]
            for name in ("destinations", "examples")
        }
        print_json(done._asdict() | parts)
        return
    _tell_examples(done)
    rows = (
        (
            one.destination,
            f"{one.messages:,}",
            f"{one.bytes or 0:,}",
            _time(one.first),
            _time(one.last),
        )
        for one in done.destinations
    )
    print_table("", ("destination", "messages", "bytes", "first", "last"), rows)
    if done.encrypted:
        complain(f"Left out: {counted(done.encrypted, 'encrypted message')}.")
    if done.left_out:
        complain(f"Left out by the function: {counted(done.left_out, 'message')}.")
    if done.dry_run:
        say(f"Would send {counted(done.messages, 'message')}.")
    else:
        again = "; finished an interrupted replay" if done.resumed else ""
        say(f"Sent {counted(done.sent, 'message')}; batches {done.batches:,}{again}.")


def _tell_examples(done: Replayed) -> None:
    """The first messages before and after the function: what differs."""
    rows = []
    for one in done.examples:
        if one.after is None:
            rows.append((one.message, "", "", "left out"))
            continue
        changed = [name for name in one.before if one.before[name] != one.after[name]]
        rows += [
            (one.message, name, _value(one.before[name]), _value(one.after[name]))
            for name in changed
        ] or [(one.message, "", "", "not changed")]
    if rows:
        print_table("The first messages", ("message", "property", "before", "after"), rows)


def _value(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}..."


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(" ", "seconds")


@talking
def settle(
    remote: Remote,
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="Checkpoint folder of a stream that has ended."),
    ],
) -> None:
    """Acknowledge the last batch that a stream has committed, which Spark itself never does.

    Only batches in the commits of the checkpoint count. You can repeat the command. Posthouse's own
    pipelines settle when they end.

    Example: posthouse pipeline settle ./lake/_posthouse/checkpoints/0123456789abcdef
    """
    need_spark()
    from posthouse.spark import settle as run

    with reached(remote, "operate") as place:
        settled = run(checkpoint, place.url, place.token_file)
    if remote.json:
        for one in settled:
            print_json(one._asdict())
        return
    rows = ((one.queue, one.group, str(one.position), f"{one.received:,}") for one in settled)
    print_table("", ("queue", "group", "position", "received"), rows)
