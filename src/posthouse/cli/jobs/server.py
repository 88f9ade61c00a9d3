"""`posthouse job server`: queue servers: a command for each job, or Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from posthouse.api.bindery import MemberBody, ObjectCreateBody, ObjectJson
from posthouse.api.jobs import JobQueueJson
from posthouse.api.types import Done
from posthouse.cli.command import group, interruptible, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.durations import duration
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.output import complain, print_json, safe, say
from posthouse.cli.user import PASSWORD_LENGTH_MAX
from posthouse.model.bindery import (
    NWOT_ARCHIVE_QUEUE,
    NWOT_ARCHIVE_SERVER,
    NWOT_JOB_SERVER,
    NWOT_PRINT_QUEUE,
    NWOT_PRINT_SERVER,
    parse_type,
    type_name,
)
from posthouse.model.completion_codes import NO_Q_RIGHTS, NO_SUCH_OBJECT
from posthouse.model.errors import QmsError
from posthouse.model.job_types import parse_job_type
from posthouse.model.text import counted

if TYPE_CHECKING:
    from posthouse.qms.queue_server import QueueServer

SERVER_OF: Final = {
    NWOT_PRINT_QUEUE: NWOT_PRINT_SERVER,
    NWOT_ARCHIVE_QUEUE: NWOT_ARCHIVE_SERVER,
}
SPARK_NAME: Final = "SPARK"
FAILED: Final = 1
REMEDIES: Final = {
    NO_SUCH_OBJECT: "Start it with --enrol, which creates the server's object and lists it in "
    "Q_SERVERS of its queues.",
    NO_Q_RIGHTS: "Start it with --enrol, or let it service the queue: "
    "`posthouse job queue allow QUEUE servers TYPE:NAME`.",
}

Queues = Annotated[
    list[str],
    typer.Option("--queue", metavar="QUEUE", help="Job queue to service; repeat it for several."),
]
ServerType = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Type of the server's object (default: by the type of the first queue).",
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File whose first line is the server's password; not needed by administrators.",
    ),
]
Enrol = Annotated[
    bool,
    typer.Option(
        "--enrol", help="Create the server's object and add it to Q_SERVERS of its queues."
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Stop after this many jobs.")
]
Poll = Annotated[
    float,
    typer.Option(
        "--poll",
        metavar="T",
        parser=duration(0.05),
        help="Time between two checks of an empty queue.",
    ),
]
Retry = Annotated[
    float,
    typer.Option(
        "--retry",
        metavar="T",
        parser=duration(),
        help="Pause before a failed job is tried again; it doubles each time.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="T", parser=duration(0.1), help="Longest time for one job."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(app, "server", "", "Queue servers: a command for each job, or Spark.")
    inner.command("run")(run)
    inner.command("spark")(spark)


@talking
def run(
    remote: Remote,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the queue server in the bindery.")
    ],
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...",
            help="Command to run, after --; {file} stands for the file of the job.",
        ),
    ],
    queues: Queues,
    type: ServerType = None,
    password_file: PasswordFile = None,
    enrol: Enrol = False,
    job_types: Annotated[
        str,
        typer.Option("--job-types", metavar="LIST", help="Job types to service (default: all)."),
    ] = "",
    environment: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME",
            help="Environment variable for the command; repeat it for several.",
        ),
    ] = None,
    timeout: Timeout = None,
    retry: Retry = 5.0,
    poll: Poll = 0.5,
    jobs: Jobs = None,
) -> None:
    """Service job queues: one command for each job, without a shell.

    The command gets the file of the job on standard input and as {file}; POSTHOUSE_JOB names a JSON
    file with the properties of the job. Exit code 0 finishes the job, any other fails it. Lines
    such as `3/10 halfway` that the command writes to the file in POSTHOUSE_JOB_PROGRESS are shown
    as its progress; the end of its output is the result. It runs in a folder of its own with a
    clean environment.

    If the command does not exist, the server ends with exit code 2 before it takes a job. Exit code
    1: a job failed, or the command could no longer be run; that job stays in its queue.

    Example: posthouse job server run COUNTER --queue REPORTS --enrol --jobs 1 -- wc -c
    """
    from posthouse.qms.commands import CommandWorker
    from posthouse.qms.queue_server import CannotRun, QueueServer

    given = {one: os.environ[one] for one in environment or [] if one in os.environ}
    types = [_type(word) for word in job_types.split(",") if word.strip()]
    try:
        worker = CommandWorker(command, types=types, timeout_s=timeout, environment=given)
    except CannotRun as error:
        raise typer.BadParameter(f"{safe(str(error))}.", param_hint="COMMAND") from None
    kind = _prepared(remote, name, type, queues, enrol)
    with interruptible("Stopping.") as stop:
        server = QueueServer(
            remote.client,
            name,
            kind,
            queues,
            worker,
            password=_password(password_file),
            poll_s=poll,
            retry_s=retry,
            jobs=jobs,
            tell=_tell,
            stop=stop,
        )
        _serve(remote, server)


@talking
def spark(
    remote: Remote,
    queues: Queues,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the queue server in the bindery.")
    ] = SPARK_NAME,
    type: ServerType = None,
    password_file: PasswordFile = None,
    enrol: Enrol = False,
    lakes: Annotated[
        list[str] | None,
        typer.Option(
            "--lake",
            metavar="[NAME=]DIR",
            help="Lake that jobs use under this name; repeat it for several.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for rows and reports."),
    ] = None,
    programs: Annotated[
        bool,
        typer.Option(
            "--programs/--no-programs", help="Run PySpark files of users in Q_CODE_USERS."
        ),
    ] = True,
    code_user: Annotated[
        str | None,
        typer.Option(
            "--code-user",
            metavar="USER",
            help="System user that runs PySpark files (default for root: the user `nobody`).",
        ),
    ] = None,
    trust_code: Annotated[
        bool,
        typer.Option("--trust-code", help="Run PySpark files even if they can read the home."),
    ] = False,
    timeout: Timeout = None,
    retry: Retry = 30.0,
    poll: Poll = 0.5,
    jobs: Jobs = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark master (default: local[*])."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="NAME=VALUE",
            help="Spark setting, also for PySpark files; repeat it for several.",
        ),
    ] = None,
) -> None:
    """Service job queues with Spark: SQL, pipelines and PySpark files.

    A job of type sql is one SELECT. A job of type pipeline is JSON such as {"pipeline": "archive",
    "queues": ["./private$/orders"]}. Both run in one Spark session with the rights of the user who
    submitted the job. A job of type pyspark is a program of a user in Q_CODE_USERS and runs as an
    application of its own. With a queue of type archive this is the archive server of NetWare's
    document. Exit code 1: a job failed.

    Example: posthouse job server spark --queue REPORTS --enrol --lake ./lake --jobs 1
    """
    from posthouse.api.types import StatusJson
    from posthouse.cli.pipelines.access import need_spark, running_spark

    need_spark()
    os.umask(0o077)  # rows, reports and lakes are their readers' own business
    from posthouse.qms.queue_server import QueueServer
    from posthouse.spark.jobs.programs import Programs
    from posthouse.spark.jobs.worker import SparkWorker

    url = remote.url or remote.ask(StatusJson, "GET", path_of("status")).url
    if not url:
        raise CommandFailed(
            "The queue manager has no admin endpoint, which the tasks of Spark connect to",
            "Set [admin] port in posthouse.toml and start it again.",
        )
    place, runner, settings = master or "local[*]", None, _settings(conf)
    if programs:
        try:
            runner = Programs(
                place,
                _private(remote),
                user=code_user,
                trusted=trust_code,
                conf=settings,
                timeout_s=timeout,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    kind = _prepared(remote, name, type, queues, enrol)
    with (
        running_spark(f"posthouse {name}", place, quiet=remote.json, conf=settings) as session,
        interruptible("Stopping.") as stop,
    ):
        worker = SparkWorker(session, url, lakes=_lakes(lakes), out=out, programs=runner)
        server = QueueServer(
            remote.client,
            name,
            kind,
            queues,
            worker,
            password=_password(password_file),
            poll_s=poll,
            retry_s=retry,
            jobs=jobs,
            tell=_tell,
            stop=stop,
        )
        _serve(remote, server)


def _settings(given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or []]
    if any(not name or not equals for name, equals, _ in pairs):
        raise typer.BadParameter("--conf is NAME=VALUE, such as spark.cores.max=2")
    return {name: value for name, _, value in pairs}


def _lakes(given: list[str] | None) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in given or []:
        name, equals, folder = text.partition("=")
        found[name if equals else "lake"] = Path(folder if equals else text).absolute()
    return found


def _private(remote: Remote) -> list[Path]:
    """What programs must not be able to read: the home, and the token of this server."""
    from posthouse.net.control_socket import default_home

    found = [remote.home or default_home()]
    if remote.token_file is not None:
        found.append(remote.token_file)
    return found


# -- the server's object


def _prepared(remote: Remote, name: str, type: str | None, queues: list[str], enrol: bool) -> int:
    """The type of the server's object; with `enrol` it is there and listed afterwards."""
    found = [remote.ask(JobQueueJson, "GET", path_of("job-queues", one)) for one in queues]
    if type is None:
        kind = SERVER_OF.get(parse_type(found[0].type), NWOT_JOB_SERVER)
    else:
        word = type.lower()
        kind = parse_type(f"{word}_server" if word in ("job", "print", "archive") else word)
    if enrol:
        _enrol(remote, name, kind, found)
    return kind


def _enrol(remote: Remote, name: str, kind: int, queues: list[JobQueueJson]) -> None:
    try:
        remote.ask(ObjectJson, "GET", path_of("bindery", "objects", str(kind), name))
    except QmsError as error:
        if error.completion != NO_SUCH_OBJECT:
            raise
        body = ObjectCreateBody(name=name, type=str(kind))
        remote.ask(ObjectJson, "POST", path_of("bindery", "objects"), body=body)
    listed = f"{type_name(kind)}:{name.upper()}"
    for queue in queues:
        if listed not in (queue.listed_servers or []):
            path = path_of("bindery", "objects", queue.type, queue.name, "properties", "Q_SERVERS")
            member = MemberBody(name=name, type=str(kind))
            remote.ask(Done, "POST", f"{path}/add", body=member)


def _password(file: Path | None) -> str | None:
    """None: the caller is an administrator, and needs none."""
    if file is None:
        return None
    with file.open(encoding="utf-8") as lines:
        return lines.readline(PASSWORD_LENGTH_MAX + 1).rstrip("\r\n")


def _type(text: str) -> int:
    try:
        return parse_job_type(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


# -- running


def _tell(text: str) -> None:
    complain(text)
    sys.stderr.flush()


def _serve(remote: Remote, server: QueueServer) -> None:
    """Runs it to its end; exit code 1 when a job failed, or none could be done."""
    from posthouse.qms.queue_server import CannotRun

    error = ""
    try:
        server.run()
    except CannotRun as cause:
        error = str(cause)
    except QmsError as refusal:
        if remedy := REMEDIES.get(refusal.completion):
            refusal.remedy = remedy
        raise
    finished, failed = server.served
    if remote.json:
        print_json({"finished": finished, "failed": failed} | ({"error": error} if error else {}))
    else:
        say(f"Finished {counted(finished, 'job')}; {failed:,} failed.")
    if error:
        raise CommandFailed(f"The server has ended: {error}", name="JOB_SERVER_ENDED")
    if failed:
        raise typer.Exit(FAILED)
