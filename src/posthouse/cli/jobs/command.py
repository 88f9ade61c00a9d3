"""`posthouse job`: jobs in job queues: submit, look at, hold, move, change, remove, watch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from msgspec import UNSET

from posthouse.api.jobs import (
    PIECE_MAX,
    JobBody,
    JobChangeBody,
    JobEndJson,
    JobHistoryJson,
    JobJson,
    JobListJson,
    JobPositionBody,
    MoveBody,
    MovedJson,
    StationBody,
    StationJson,
)
from posthouse.api.types import Done
from posthouse.cli.command import Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.jobs import queue as job_queue
from posthouse.cli.jobs import server as job_server
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import print_json, print_pairs, print_table, say
from posthouse.cli.progress import bar
from posthouse.cli.watch_option import watchable
from posthouse.model.completion_codes import NO_Q_JOB
from posthouse.model.errors import QmsError
from posthouse.model.job_types import job_type_name, parse_job_type

PAGE: Final = 1000
LOOK_S: Final = 0.3


Queue = job_queue.Queue
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the job.")]
JobType = Annotated[
    str,
    typer.Option(
        "--type", metavar="TYPE", help="Type of the job: 0 to 65534, or sql, pipeline, pyspark."
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="T",
        help="Do not service the job before this time, such as 2026-01-31T12:00:00 (UTC).",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="NAME", help="Let only this queue server service the job; TYPE:NAME."
    ),
]
Operator = Annotated[
    bool,
    typer.Option("--operator", help="Set the operator's hold, which only operators can change."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(app, "job", "Job queues", "Jobs, job queues and queue servers.")
    inner.command("submit")(submit)
    inner.command("list")(list_jobs)
    inner.command("show")(show)
    inner.command("hold")(hold)
    inner.command("release")(release)
    inner.command("move")(move)
    inner.command("transfer")(transfer)
    inner.command("set")(change)
    inner.command("delete")(remove)
    inner.command("watch")(watch)
    inner.command("history")(history)
    job_queue.register(inner)
    job_server.register(inner)


def _job(queue: str, number: int, *more: str) -> str:
    return path_of("job-queues", queue, "jobs", str(number), *more)


def _type(text: str) -> int:
    try:
        return parse_job_type(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


# -- submitting


@contextmanager
def station(remote: Remote) -> Iterator[str]:
    """A station for what takes several calls."""
    opened = remote.ask(StationJson, "POST", path_of("stations"), body=StationBody())
    try:
        yield opened.station
    finally:
        remote.ask(Done, "DELETE", path_of("stations", opened.station))


@talking
def submit(
    remote: Remote,
    queue: Queue,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File with the data of the job; - reads standard input."
        ),
    ],
    type: JobType = "0",
    description: Annotated[
        str,
        typer.Option(
            "--description", metavar="TEXT", help="Description, up to 49 ASCII characters."
        ),
    ] = "",
    at: At = None,
    server: Server = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Keep the job in the queue if its server fails.")
    ] = False,
    auto_start: Annotated[
        bool,
        typer.Option(
            "--auto-start",
            help="Start the job even if this command is interrupted while it submits it.",
        ),
    ] = False,
    on_hold: Annotated[
        bool, typer.Option("--hold", help="Hold the job until you release it.")
    ] = False,
    response_queue: Annotated[
        str,
        typer.Option(
            "--response-queue",
            metavar="PATH",
            parser=full_name,
            help="Queue that gets a message when the job ends.",
        ),
    ] = "",
    record: Annotated[
        Path | None,
        typer.Option(
            "--record-file", metavar="FILE", help="File with up to 152 bytes for the queue server."
        ),
    ] = None,
) -> None:
    """Submit a job. It can be serviced when its file is complete.

    Example: posthouse job submit REPORTS query.sql --type sql --restart
    """
    body = JobBody(
        type=_type(type),
        description=description,
        target_server=server or "",
        target_time=at,
        restart=restart,
        auto_start=auto_start,
        user_hold=on_hold,
        response_queue=response_queue,
        record=b"" if record is None else record.read_bytes(),
    )
    with _source(file) as source, station(remote) as opened:
        target = {"station": opened}
        path = path_of("job-queues", queue, "jobs")
        made = remote.ask(JobJson, "POST", path, query=target, body=body)
        _send(remote, made, source, opened, 0 if str(file) == "-" else file.stat().st_size)
        path = _job(queue, made.number, "start")
        made = remote.ask(JobJson, "POST", path, query=target)
    if remote.json:
        print_json(made)
    else:
        say(f"Job {made.number} of {made.queue}, at position {made.position}.")


def _source(file: Path) -> IO[bytes]:
    return sys.stdin.buffer if str(file) == "-" else file.open("rb")


def _send(remote: Remote, job: JobJson, source: IO[bytes], opened: str, size: int) -> None:
    """The job's file, piece by piece."""
    at = 0
    with bar("Writing", size, quiet=remote.json or size <= PIECE_MAX) as advance:
        while piece := source.read(PIECE_MAX):
            path = _job(f"id:{job.queue_id:08X}", job.number, "file")
            remote.octets("PUT", path, piece, query={"station": opened, "offset": at})
            at += len(piece)
            advance(at, max(size, at))


# -- looking


@watchable
@talking
def list_jobs(remote: Remote, queue: Queue) -> None:
    """List the jobs of a queue in order.

    Example: posthouse job list REPORTS
    """
    found, start = list[JobJson](), 1
    while True:
        query = {"start": start, "limit": PAGE}
        path = path_of("job-queues", queue, "jobs")
        page = remote.ask(JobListJson, "GET", path, query=query)
        found += page.jobs
        if page.next is None:
            break
        start = page.next
    if remote.json:
        for one in found:
            print_json(one)
        return
    print_table("", _COLUMNS, map(_row, found))


RESULT_SHOWN: Final = 120  # characters in a table; --json has all of them
_COLUMNS = ("position", "job", "type", "owner", "bytes", "entered", "state", "description")


def _row(one: JobJson) -> tuple[str, ...]:
    return (
        str(one.position),
        str(one.number),
        job_type_name(one.type),
        one.owner,
        f"{one.file_size:,}",
        one.entry_time,
        state_of(one),
        one.description,
    )


def state_of(one: JobJson) -> str:
    """Where a job stands, in a few words."""
    if one.server_id:
        return f"in service by {one.server}{_progress(one)}"
    words = [word for flag, word in _STATES.items() if flag in one.flags]
    if one.target_time is not None:
        words.append(f"not before {one.target_time}")
    return ", ".join(words) or "ready"


_STATES: Final = {
    "entry_open": "being written",
    "user_hold": "held",
    "operator_hold": "held by operator",
}


def _progress(one: JobJson) -> str:
    if one.progress is None:
        return ""
    share = f", {one.progress.done:,} of {one.progress.total:,}" if one.progress.total else ""
    return f"{share}{', ' if one.progress.text else ''}{one.progress.text}"


@talking
def show(remote: Remote, queue: Queue, number: Number) -> None:
    """Show a job.

    Example: posthouse job show REPORTS 1
    """
    _tell(remote, remote.ask(JobJson, "GET", _job(queue, number)))


def _tell(remote: Remote, one: JobJson) -> None:
    if remote.json:
        print_json(one)
        return
    print_pairs(
        {
            "job": f"{one.number} of {one.queue}, position {one.position}",
            "description": one.description,
            "state": state_of(one),
            "type": job_type_name(one.type),
            "flags": ", ".join(one.flags),
            "owner": one.owner,
            "submitted by": f"station {one.station}, task {one.task}",
            "entered": one.entry_time,
            "not before": one.target_time or "",
            "only for": one.target_server,
            "file": f"{one.file_name}, {one.file_size:,} bytes",
            "attempts": str(one.attempts) if one.attempts else "",
            "last failure": one.failure,
            "tells": one.response_queue,
            "record": one.record.rstrip(b"\0").hex(),
        }
    )


@talking
def history(
    remote: Remote,
    queue: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="Job queue (default: all job queues).")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show at most this many, the newest.")
    ] = 50,
) -> None:
    """Show jobs that have ended: finished, failed, removed; the newest last.

    Example: posthouse job history REPORTS
    """
    found = ended(remote, queue)[-limit:]
    if remote.json:
        for one in found:
            print_json(one)
        return
    rows = (
        (
            one.queue,
            str(one.number),
            one.outcome,
            one.owner,
            one.server,
            one.end_time,
            one.description,
            one.result if len(one.result) <= RESULT_SHOWN else f"{one.result[:RESULT_SHOWN]}...",
        )
        for one in found
    )
    columns = ("queue", "job", "outcome", "owner", "server", "ended", "description", "result")
    print_table("", columns, rows)


def ended(remote: Remote, queue: str | None, after: int = 0) -> list[JobEndJson]:
    """The ends of jobs that are known, oldest first."""
    found = list[JobEndJson]()
    while True:
        query = {"queue": queue, "after": after, "limit": PAGE}
        page = remote.ask(JobHistoryJson, "GET", path_of("job-history"), query=query)
        found += page.jobs
        if page.next is None:
            return found
        after = page.next


@talking
def watch(
    remote: Remote,
    queue: Queue,
    number: Annotated[
        int | None, typer.Argument(metavar="[NUMBER]", help="Watch only this job, until it ends.")
    ] = None,
) -> None:
    """Watch a job until it ends, or a queue until it is empty; prints a line for each change.

    The exit code is 0 if the job was finished, else 1.

    Example: posthouse job watch REPORTS 1
    """
    seen: dict[int, tuple[Any, ...]] = {}
    while jobs := _now(remote, queue, number):
        for one in jobs:
            state = (one.position, state_of(one), tuple(one.flags))
            if seen.get(one.number) != state:
                seen[one.number] = state
                _tell_change(remote, one)
        threading.Event().wait(LOOK_S)
    if number is not None:
        _tell_end(remote, queue, number)


def _now(remote: Remote, queue: str, number: int | None) -> list[JobJson]:
    if number is None:
        path = path_of("job-queues", queue, "jobs")
        return remote.ask(JobListJson, "GET", path, query={"limit": PAGE}).jobs
    try:
        return [remote.ask(JobJson, "GET", _job(queue, number))]
    except QmsError as error:
        if error.completion == NO_Q_JOB:
            return []
        raise


def _tell_change(remote: Remote, one: JobJson) -> None:
    if remote.json:
        print_json(one)
    else:
        say(f"job {one.number}, position {one.position}: {state_of(one)}")
    sys.stdout.flush()


def _tell_end(remote: Remote, queue: str, number: int) -> None:
    """The newest end of a job of that number; it is the one that was watched."""
    found = [one for one in ended(remote, queue) if one.number == number]
    if not found:
        raise CommandFailed(
            f"There is no job {number} in {queue}, and no record of its end",
            f"List the jobs: posthouse job list {queue}.",
        )
    one = found[-1]
    if remote.json:
        print_json(one)
    else:
        say(f"job {one.number}: {one.outcome}{': ' if one.result else ''}{one.result}")
    if one.outcome != "finished":
        raise typer.Exit(REFUSED)


# -- changing


@talking
def hold(remote: Remote, queue: Queue, number: Number, operator: Operator = False) -> None:
    """Hold a job. It moves up in the queue, but is not serviced until you release it.

    Example: posthouse job hold REPORTS 1
    """
    _set(remote, queue, number, _hold(operator, True))


def _hold(operator: bool, on: bool) -> JobChangeBody:
    return JobChangeBody(operator_hold=on) if operator else JobChangeBody(user_hold=on)


def _set(remote: Remote, queue: str, number: int, body: JobChangeBody) -> None:
    _tell(remote, remote.ask(JobJson, "PATCH", _job(queue, number), body=body))


@talking
def release(remote: Remote, queue: Queue, number: Number, operator: Operator = False) -> None:
    """Release a job that was held.

    Example: posthouse job release REPORTS 1
    """
    _set(remote, queue, number, _hold(operator, False))


@talking
def move(
    remote: Remote,
    queue: Queue,
    number: Number,
    position: Annotated[
        int,
        typer.Argument(metavar="POSITION", min=1, help="New position; 1 is the head of the queue."),
    ],
) -> None:
    """Move a job to another position in its queue. Only operators may do this.

    Example: posthouse job move REPORTS 1 1
    """
    body = JobPositionBody(position=position)
    _tell(remote, remote.ask(JobJson, "POST", _job(queue, number, "position"), body=body))


@talking
def transfer(
    remote: Remote,
    queue: Queue,
    number: Number,
    to: Annotated[str, typer.Argument(metavar="TO", help="Job queue to move the job to.")],
) -> None:
    """Move a job to the end of another queue, where it gets a new number.

    Example: posthouse job transfer REPORTS 1 NIGHTLY
    """
    body = MoveBody(to=to)
    moved = remote.ask(MovedJson, "POST", _job(queue, number, "move"), body=body)
    if remote.json:
        print_json(moved)
    else:
        say(f"Job {moved.number} of {to.upper()}.")


@talking
def change(
    remote: Remote,
    queue: Queue,
    number: Number,
    type: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE", help="Type of the job: 0 to 65534, or sql, pipeline, pyspark."
        ),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option(
            "--description", metavar="TEXT", help="Description, up to 49 ASCII characters."
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="T|now", help="Do not service the job before this time (UTC)."
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="NAME|any", help="Let only this queue server service the job."
        ),
    ] = None,
    restart: Annotated[
        bool | None,
        typer.Option(
            "--restart/--no-restart", help="Keep the job in the queue if its server fails."
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record-file", metavar="FILE", help="File with up to 152 bytes for the queue server."
        ),
    ] = None,
) -> None:
    """Change a waiting job.

    Example: posthouse job set REPORTS 1 --description 'monthly figures'
    """
    body = JobChangeBody(
        type=_maybe(type, _type),
        description=_maybe(description, str),
        target_time=_maybe(at, lambda text: None if text == "now" else text),
        target_server=_maybe(server, lambda text: "" if text == "any" else text),
        restart=_maybe(restart, bool),
        record=_maybe(record, Path.read_bytes),
    )
    if body == JobChangeBody():
        raise typer.BadParameter("nothing to change: give at least one option")
    _set(remote, queue, number, body)


def _maybe(value: Any, made: Callable[[Any], Any]) -> Any:
    return UNSET if value is None else made(value)


@talking
def remove(remote: Remote, queue: Queue, number: Number, yes: Yes = False) -> None:
    """Remove a job with its file. A job in service is aborted.

    Example: posthouse job delete REPORTS 1 --yes
    """
    confirm(lambda: f"Remove job {number} of {queue}?", yes)
    done = remote.ask(Done, "DELETE", _job(queue, number))
    if remote.json:
        print_json(done)
    else:
        say(f"Job {number} of {queue.upper()} is removed.")
