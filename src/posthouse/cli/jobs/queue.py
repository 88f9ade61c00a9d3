"""`posthouse job queue`: job queues: create, list, show, set, allow, delete."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import typer
from msgspec import UNSET

from posthouse.api.bindery import MemberBody, PropertyJson
from posthouse.api.jobs import (
    JobQueueCreateBody,
    JobQueueJson,
    JobQueueListJson,
    JobQueueSetBody,
    Status,
)
from posthouse.api.types import Done
from posthouse.cli.command import Yes, confirm, group, talking, words
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.name_hints import full_name
from posthouse.cli.output import print_json, print_pairs, print_table, say
from posthouse.cli.watch_option import watchable
from posthouse.model.bindery import EVERYONE
from posthouse.model.text import counted

STATUSES: Final = get_args(Status)
_PAGE: Final = 1000
SETS: Final = {
    "users": "Q_USERS",
    "operators": "Q_OPERATORS",
    "servers": "Q_SERVERS",
    "code-users": "Q_CODE_USERS",
}

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Job queue: NAME or TYPE:NAME.")]
Names = "Users, by name; others as TYPE:NAME, such as group:STAFF. EVERYONE is a group."
Role = Annotated[
    str, typer.Argument(metavar="ROLE", help="Role: users, operators, servers or code-users.")
]
Members = Annotated[list[str], typer.Argument(metavar="NAME...", help=Names)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(app, "queue", "", "Job queues: create, list, show, set, allow, delete.")
    inner.command("create")(create)
    inner.command("list")(list_queues)
    inner.command("show")(show)
    inner.command("set")(set_queue)
    inner.command("allow")(allow)
    inner.command("deny")(deny)
    inner.command("delete")(delete)


def _path(queue: str) -> str:
    return path_of("job-queues", queue)


def split(text: str) -> list[str]:
    """Names between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


@talking
def create(
    remote: Remote,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the job queue, up to 47 characters.")
    ],
    type: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Type of the job queue: job, print, archive, or a number.",
        ),
    ] = "job",
    path: Annotated[
        str, typer.Option("--path", help="Path of the queue directory, as NetWare clients see it.")
    ] = "SYS:SYSTEM",
    users: Annotated[str, typer.Option("--users", metavar="LIST", help=Names)] = EVERYONE,
    operators: Annotated[
        str, typer.Option("--operators", metavar="LIST", help=Names)
    ] = "SUPERVISOR",
    servers: Annotated[
        str,
        typer.Option(
            "--servers",
            metavar="LIST",
            help="Queue servers that may service the queue, such as job_server:SPARK1.",
        ),
    ] = "",
) -> None:
    """Create a job queue, with the users who may use, operate and service it.

    Others may not, not even supervisors.

    Example: posthouse job queue create REPORTS
    """
    body = JobQueueCreateBody(
        name=name,
        type=queue_type(type),
        path=path,
        users=split(users),
        operators=split(operators),
        servers=split(servers),
    )
    made = remote.ask(JobQueueJson, "POST", path_of("job-queues"), body=body)
    if remote.json:
        print_json(made)
    else:
        say(f"{made.name}  {made.type}  {made.id:08X}")


def queue_type(text: str) -> str:
    """A type of queues by its short word."""
    word = text.strip().lower()
    return f"{word}_queue" if word in ("job", "print", "archive") else word


@watchable
@talking
def list_queues(remote: Remote) -> None:
    """List the job queues.

    Example: posthouse job queue list
    """
    found, after = list[JobQueueJson](), 0
    while True:
        query = {"after": after, "limit": _PAGE}
        page = remote.ask(JobQueueListJson, "GET", path_of("job-queues"), query=query)
        found += page.queues
        if page.next is None:
            break
        after = page.next
    if remote.json:
        for one in found:
            print_json(one)
        return
    print_table("", ("queue", "type", "id", "jobs", "servers", "status"), map(_row, found))


def _row(one: JobQueueJson) -> tuple[str, ...]:
    return (
        one.name,
        one.type,
        f"{one.id:08X}",
        "" if one.jobs is None else f"{one.jobs:,}",
        "" if one.servers is None else f"{len(one.servers):,}",
        _status(one),
    )


def _status(one: JobQueueJson) -> str:
    if one.status is None:
        return "(hidden)"
    return ", ".join(word.replace("_", " ") for word in one.status) or "open"


@talking
def show(remote: Remote, queue: Queue) -> None:
    """Show a job queue: status, attached servers, and who may do what.

    Example: posthouse job queue show REPORTS
    """
    one = remote.ask(JobQueueJson, "GET", _path(queue))
    if remote.json:
        print_json(one)
        return
    attached = (f"{each.name} at station {each.station}" for each in one.servers or [])
    print_pairs(
        {
            "queue": one.name,
            "type": one.type,
            "id": f"{one.id:08X}",
            "status": _status(one),
            "jobs": "" if one.jobs is None else f"{one.jobs:,}",
            "attached": ", ".join(attached),
            "users": _listed(one.users),
            "operators": _listed(one.operators),
            "servers": _listed(one.listed_servers),
            "directory": one.directory or "",
            "submits from": one.submit_from,
            "tells": one.response_queue,
        }
    )


def _listed(names: list[str] | None) -> str:
    return "" if names is None else ", ".join(names) or "nobody"


@talking
def set_queue(
    remote: Remote,
    queue: Queue,
    status: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="LIST", help=f"New status: open, or any of {', '.join(STATUSES)}."
        ),
    ] = None,
    submit_from: Annotated[
        str | None,
        typer.Option(
            "--submit-from",
            metavar="PATH",
            parser=full_name,
            help="Message queue whose messages become jobs of this queue; '' for none.",
        ),
    ] = None,
    response_queue: Annotated[
        str | None,
        typer.Option(
            "--response-queue",
            metavar="PATH",
            parser=full_name,
            help="Message queue that gets a message when a job ends; '' for none.",
        ),
    ] = None,
) -> None:
    """Stop or open a job queue, or connect it with message queues.

    With --submit-from, each message of that queue becomes a job of its authenticated sender, in the
    commit that receives it. With --response-queue, the end of each job sends a message to that
    queue.

    Example: posthouse job queue set REPORTS --status no_service
    """
    wanted = UNSET if status is None else _statuses(status)
    body = JobQueueSetBody(
        status=wanted,  # type: ignore[arg-type]
        submit_from=UNSET if submit_from is None else submit_from,
        response_queue=UNSET if response_queue is None else response_queue,
    )
    if body == JobQueueSetBody():
        raise typer.BadParameter("nothing to change: give at least one option")
    one = remote.ask(JobQueueJson, "PATCH", _path(queue), body=body)
    if remote.json:
        print_json(one)
    else:
        say(f"{one.name}: {_status(one)}")


def _statuses(text: str) -> list[str]:
    found = words(text, ("open", *STATUSES), "status")
    if "open" in found and set(found) != {"open"}:
        raise typer.BadParameter("a queue that is open has no other status: give open alone")
    return [one for one in found if one != "open"]


# -- who may


def _set_of(role: str) -> str:
    (word,) = words(role, tuple(SETS), "role") or [""]
    if not word:
        raise typer.BadParameter("a role is users, operators, servers or code-users")
    return SETS[word]


def member_body(text: str) -> MemberBody:
    """A member by name, or by type and name."""
    type, colon, name = text.partition(":")
    if colon:
        return MemberBody(name=name, type=type)
    return MemberBody(name=text, type="group" if text.upper() == EVERYONE else "user")


def _properties(remote: Remote, queue: str) -> str:
    """The path of the properties of a queue."""
    one = remote.ask(JobQueueJson, "GET", _path(queue))
    return path_of("bindery", "objects", one.type, one.name, "properties")


@talking
def allow(remote: Remote, queue: Queue, role: Role, members: Members) -> None:
    """Allow users to use, operate or service a job queue.

    The role code-users allows jobs that are Python programs. A new queue has no code-users.

    Example: posthouse job queue allow REPORTS users SUPERVISOR
    """
    property, path = _set_of(role), _properties(remote, queue)
    for one in members:
        remote.ask(Done, "POST", f"{path}/{property}/add", body=member_body(one))
    _tell(remote, queue, path, property)


@talking
def deny(remote: Remote, queue: Queue, role: Role, members: Members) -> None:
    """Take a role of a job queue away from users.

    Example: posthouse job queue deny REPORTS users SUPERVISOR
    """
    property, path = _set_of(role), _properties(remote, queue)
    for one in members:
        remote.ask(Done, "POST", f"{path}/{property}/remove", body=member_body(one))
    _tell(remote, queue, path, property)


def _tell(remote: Remote, queue: str, path: str, property: str) -> None:
    found = remote.ask(PropertyJson, "GET", f"{path}/{property}")
    if remote.json:
        print_json(found)
    else:
        names = [one.name for one in found.members or []]
        say(f"{property} of {queue.upper()}: {', '.join(names) or 'nobody'}")


@talking
def delete(remote: Remote, queue: Queue, yes: Yes = False) -> None:
    """Delete a job queue with all its jobs.

    Example: posthouse job queue delete REPORTS --yes
    """
    one = remote.ask(JobQueueJson, "GET", _path(queue))
    confirm(lambda: f"Delete {one.name} and {counted(one.jobs or 0, 'job')}?", yes)
    done = remote.ask(Done, "DELETE", _path(queue))
    if remote.json:
        print_json(done)
    else:
        say(f"{one.name} is deleted.")
