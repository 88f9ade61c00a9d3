"""`posthouse definitions`: queues, rights, users and job queues as one file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer
from msgspec import UNSET, UnsetType

from posthouse.api.access import AccessJson, AccessSetBody
from posthouse.api.jobs import (
    JobQueueCreateBody,
    JobQueueJson,
    JobQueueListJson,
    JobQueueSetBody,
)
from posthouse.api.types import (
    Guid,
    Name,
    QueueCreateBody,
    QueueJson,
    QueueSetBody,
    UserCreateBody,
    UserJson,
    UserListJson,
    UserSetBody,
)
from posthouse.cli.command import DryRun, Yes, confirm, group, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.error_output import CommandFailed
from posthouse.cli.output import complain, print_json, say, whole_file
from posthouse.cli.queues.listing import all_queues
from posthouse.model.errors import QueueError
from posthouse.model.json_for_terminals import json_for_terminals
from posthouse.model.text import counted
from posthouse.security.sids import PRINCIPALS, parse_sid

FORMAT: Final = "posthouse definitions"
VERSION: Final = 1
FILE_SIZE_MAX: Final = 64 << 20
KINDS: Final = ("private", "public")
ADMINISTRATOR: Final = "administrator"  # is there from the first start on
NO_TYPE: Final = "00000000-0000-0000-0000-000000000000"
MEMBERS: Final = {"users": "users", "operators": "operators", "servers": "listed_servers"}


class Access(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An entry of the access list of a queue."""

    who: str
    rights: list[str]
    denied: bool = False


class QueueDefinition(QueueSetBody, kw_only=True, forbid_unknown_fields=True):
    """A queue: its properties, and its access list. What is not given stays as it is."""

    path: Name
    transactional: bool | UnsetType = UNSET
    type_id: Guid | UnsetType | None = UNSET  # type: ignore[assignment]  # null: it has none
    access: list[Access] | UnsetType | None = UNSET


class UserDefinition(msgspec.Struct, forbid_unknown_fields=True):
    """A user, without a password. What is not given stays as it is."""

    name: str
    doors: list[str] | UnsetType = UNSET
    administrator: bool | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    role: str | UnsetType | None = UNSET  # the most that tokens and the password give


class JobQueueDefinition(msgspec.Struct, forbid_unknown_fields=True):
    """A job queue, and who may use it. What is not given, or null, stays as it is.

    An export has null for members that its caller may not see.
    """

    name: str
    type: str = "job_queue"
    users: list[str] | UnsetType | None = UNSET
    operators: list[str] | UnsetType | None = UNSET
    servers: list[str] | UnsetType | None = UNSET
    submit_from: str | UnsetType = UNSET
    response_queue: str | UnsetType = UNSET


class Definitions(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file. `name` and `made` state where it is from."""

    format: str = FORMAT
    version: int = VERSION
    name: str = ""
    made: str = ""
    users: list[UserDefinition] = msgspec.field(default_factory=list)
    queues: list[QueueDefinition] = msgspec.field(default_factory=list)
    job_queues: list[JobQueueDefinition] = msgspec.field(default_factory=list)


class Step(NamedTuple):
    """One difference, and what makes it go; None: it stays as it is."""

    what: str  # user, queue, access, job queue
    name: str
    verb: str  # create, change, conflict, extra
    details: dict[str, Any]
    apply: Callable[[Remote], object] | None = None

    @property
    def line(self) -> str:
        """The difference for people."""
        sign = {"create": "+", "change": "~", "conflict": "!", "extra": " "}[self.verb]
        words = ", ".join(f"{key}: {value}" for key, value in self.details.items())
        return f"{sign} {self.what} {self.name}{'  ' if words else ''}{words}"

    @property
    def values(self) -> dict[str, Any]:
        """The difference for machines."""
        return {"what": self.what, "name": self.name, "verb": self.verb, "details": self.details}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    inner = group(
        app,
        "definitions",
        "Queue manager",
        "Queues, rights, users and job queues as one file: export, diff, import.",
    )
    inner.command("export")(export)
    inner.command("diff")(diff)
    inner.command("import")(import_definitions)


DefinitionsFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="File of definitions; - for standard input.")
]


@talking
def export(
    remote: Remote,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File (default: standard output)."),
    ] = None,
) -> None:
    """Write the queues with their rights, the users and the job queues as one file of JSON.

    Messages, passwords, tokens and certificates are not in it. Names are without the computer name,
    so that you can import the file into another queue manager.

    Example: posthouse definitions export --output definitions.json
    """
    found = read_here(remote)
    lines = msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
    text = json_for_terminals(lines)
    if output is None:
        sys.stdout.write(text)
        return
    with whole_file(output) as out:
        out.write(text.encode())
    complain(f"{output}: {_counted(found)}.")


def _counted(found: Definitions) -> str:
    return (
        f"{counted(len(found.queues), 'queue')}, {counted(len(found.users), 'user')}, "
        f"{counted(len(found.job_queues), 'job queue')}"
    )


@talking
def diff(remote: Remote, file: DefinitionsFile) -> None:
    """Show how the queue manager differs from a file of definitions. Exit code 1 if it does.

    + is created by an import, ~ is changed, ! cannot be changed. Lines without a sign are not in
    the file; an import leaves them as they are.

    Example: posthouse definitions diff definitions.json
    """
    steps = list(differences(read_here(remote), read_file(file)))
    _tell(remote, steps)
    if any(step.verb != "extra" for step in steps):
        raise typer.Exit(1)
    if not remote.json:
        say("The queue manager has everything that is in the file.")


@talking
def import_definitions(
    remote: Remote, file: DefinitionsFile, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Create and change what a file of definitions has, after showing the differences.

    Nothing is deleted, and no message is touched. If something in the file cannot be done, nothing
    is changed. New users have no password: set one with `posthouse user passwd`. If an import is
    interrupted, run it again: it goes on with what is left.

    Example: posthouse definitions import definitions.json --dry-run
    """
    steps = [
        step for step in differences(read_here(remote), read_file(file)) if step.verb != "extra"
    ]
    _tell(remote, steps)
    conflicts = [step for step in steps if step.verb == "conflict"]
    if conflicts:
        raise CommandFailed(
            f"an import cannot resolve {counted(len(conflicts), 'difference')}; nothing changed",
            "Change the file, create these users, or delete these queues first.",
            name="CONFLICT",
        )
    if dry_run or not steps:
        if not remote.json:
            say("Nothing was changed." if steps else "Everything is there; nothing was changed.")
        return
    confirm(lambda: f"Make {counted(len(steps), 'change')}?", yes)
    for step in steps:
        assert step.apply is not None
        step.apply(remote)
    if not remote.json:
        say(f"Made {counted(len(steps), 'change')}.")


def _tell(remote: Remote, steps: Sequence[Step]) -> None:
    for step in steps:
        if remote.json:
            print_json(step.values)
        else:
            say(step.line)


# -- what is there


def read_here(remote: Remote) -> Definitions:
    """The definitions of the queue manager."""
    status = remote.client.call("GET", path_of("status").removeprefix("/api/v1"))
    users = remote.ask(UserListJson, "GET", path_of("users")).users
    queues = [queue for queue in all_queues(remote) if queue.kind in KINDS]
    return Definitions(
        name=str(status["name"]),
        made=str(status["time"]),
        users=[_user(user) for user in users if user.name.lower() != ADMINISTRATOR],
        queues=[_queue(remote, queue) for queue in queues],
        job_queues=[_job_queue(one) for one in _job_queues(remote)],
    )


def _user(user: UserJson) -> UserDefinition:
    return UserDefinition(
        user.name, sorted(user.doors), user.administrator, user.disabled, user.role
    )


def _queue(remote: Remote, queue: QueueJson) -> QueueDefinition:
    access = remote.ask(AccessJson, "GET", path_of("queues", queue.path, "access"))
    names = QueueCreateBody.__struct_fields__
    values = {name: getattr(queue, name) for name in names if name != "path"}
    values["type_id"] = queue.type_id or None
    values["poison_queue"] = _local(queue.poison_queue)
    return QueueDefinition(
        **values,
        path=".\\" + queue.path.partition("\\")[2],
        access=[  # an entry without rights neither gives nor denies any
            Access(one.who, sorted(one.rights), one.denied) for one in access.entries if one.rights
        ],
    )


def _job_queues(remote: Remote) -> Iterator[JobQueueJson]:
    after: int | None = 0
    while after is not None:
        query = {"after": after, "limit": 1000}
        page = remote.ask(JobQueueListJson, "GET", path_of("job-queues"), query=query)
        yield from page.queues
        after = page.next


def _job_queue(one: JobQueueJson) -> JobQueueDefinition:
    members = {
        name: None if (found := getattr(one, listed)) is None else sorted(found)
        for name, listed in MEMBERS.items()
    }
    return JobQueueDefinition(
        one.name,
        one.type,
        **members,
        submit_from=_local(one.submit_from),
        response_queue=_local(one.response_queue),
    )


def _local(path: str) -> str:
    """The name of a queue of this machine without the computer name."""
    return ".\\" + path.partition("\\")[2] if "\\" in path and "=" not in path else path


# -- what is in a file


def read_file(file: Path) -> Definitions:
    """The definitions of a file; a file that is none ends the command."""
    if str(file) == "-":
        data = sys.stdin.buffer.read(FILE_SIZE_MAX + 1)
    else:
        with file.open("rb") as stream:
            data = stream.read(FILE_SIZE_MAX + 1)
    if len(data) > FILE_SIZE_MAX:
        raise typer.BadParameter(f"{file} is larger than {FILE_SIZE_MAX:,} bytes")
    try:
        found = msgspec.json.decode(data, type=Definitions)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{file} is not a file of definitions: {error}") from None
    if found.format != FORMAT or found.version != VERSION:
        raise typer.BadParameter(
            f"{file} is {found.format!r} of version {found.version}; this program reads "
            f"{FORMAT!r} of version {VERSION}"
        )
    for what, names in (
        ("user", [user.name for user in found.users]),
        ("queue", [queue.path for queue in found.queues]),
        ("job queue", [f"{one.type}:{one.name}" for one in found.job_queues]),
    ):
        seen = set[str]()
        for name in map(_key, names):
            if name in seen:
                raise typer.BadParameter(f"{file} has the {what} {name} twice")
            seen.add(name)
    return found


def _key(name: str) -> str:
    return name.lower().replace("/", "\\")


# -- how they differ


def differences(here: Definitions, wanted: Definitions) -> Iterator[Step]:
    """What an import changes, in the order in which it does."""
    users = {_key(user.name): user for user in here.users}
    for user in wanted.users:
        if _key(user.name) != ADMINISTRATOR:
            yield from _user_steps(users.pop(_key(user.name), None), user)
    queues = {_key(queue.path): queue for queue in here.queues}
    there = {_key(queue.path): queues.pop(_key(queue.path), None) for queue in wanted.queues}
    for queue in wanted.queues:  # all of them, before one names another as its poison queue
        if there[_key(queue.path)] is None:
            yield _creation(queue)
    yield from _missing_names(here, wanted)
    for queue in wanted.queues:
        yield from _queue_steps(there[_key(queue.path)], queue)
    jobs = {_key(f"{one.type}:{one.name}"): one for one in here.job_queues}
    for one in wanted.job_queues:
        yield from _job_steps(jobs.pop(_key(f"{one.type}:{one.name}"), None), one)
    yield from (Step("user", user.name, "extra", {}) for user in users.values())
    yield from (Step("queue", queue.path, "extra", {}) for queue in queues.values())
    yield from (Step("job queue", one.name, "extra", {}) for one in jobs.values())


def _missing_names(here: Definitions, wanted: Definitions) -> Iterator[Step]:
    """Names of the file that lead nowhere: an import would end half-way at each of them."""
    users = {_key(one.name) for one in (*here.users, *wanted.users)} | {ADMINISTRATOR, *PRINCIPALS}
    queues = {_key(one.path) for one in (*here.queues, *wanted.queues)}
    for queue in wanted.queues:
        given = queue.access or []
        strange = [one.who for one in given if _key(one.who) not in users and not _is_sid(one.who)]
        if strange:
            yield Step(
                "access", queue.path, "conflict", dict.fromkeys(strange, "there is no such user")
            )
        poison = queue.poison_queue or ""
        if poison.startswith(".\\") and _key(poison.partition(";")[0]) not in queues:
            yield Step("queue", queue.path, "conflict", {"poison_queue": f"there is no {poison}"})


def _is_sid(text: str) -> bool:
    if not text.upper().startswith("S-1-"):
        return False
    try:
        return bool(parse_sid(text.upper()))
    except QueueError:
        return False


def _changes(old: msgspec.Struct, new: msgspec.Struct, names: Sequence[str]) -> dict[str, Any]:
    """The fields that differ, with what they are to be; those that are not given stay."""
    return {
        name: getattr(new, name)
        for name in names
        if _is_given(new, name) and _plain(old, name) != _plain(new, name)
    }


def _is_given(one: msgspec.Struct, name: str) -> bool:
    value = getattr(one, name)
    return value is not UNSET and (value is not None or name not in MEMBERS)


def _given(one: msgspec.Struct, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(one, name) for name in names if _is_given(one, name)}


def _plain(one: msgspec.Struct, name: str) -> Any:
    value = getattr(one, name)
    return sorted(value) if name in ("doors", *MEMBERS) and isinstance(value, list) else value


def _shown(old: msgspec.Struct, changes: dict[str, Any]) -> dict[str, Any]:
    return {name: f"{getattr(old, name)!r} -> {value!r}" for name, value in changes.items()}


def _user_steps(old: UserDefinition | None, new: UserDefinition) -> Iterator[Step]:
    if old is None:
        body = _given(new, ("name", "doors", "administrator", "role"))
        made: UserCreateBody = _body(UserCreateBody, body)
        yield Step(
            "user",
            new.name,
            "create",
            {
                "doors": ",".join(made.doors),
                "administrator": made.administrator,
                "role": made.role,
            },
            lambda remote: remote.ask(UserJson, "POST", path_of("users"), body=made),
        )
        old = UserDefinition(new.name, list(made.doors), made.administrator, False, made.role)
    changes = _changes(old, new, ("doors", "administrator", "disabled", "role"))
    if changes:
        change = _body(UserSetBody, changes)
        target = path_of("users", new.name)
        yield Step(
            "user",
            new.name,
            "change",
            _shown(old, changes),
            lambda remote: remote.ask(UserJson, "PATCH", target, body=change),
        )


def _creation(new: QueueDefinition) -> Step:
    body = _given(new, QueueCreateBody.__struct_fields__)
    made = _body(QueueCreateBody, body | {"poison_queue": ""})
    return Step(
        "queue",
        new.path,
        "create",
        {"transactional": True} if made.transactional else {},
        lambda remote: remote.ask(QueueJson, "POST", path_of("queues"), body=made),
    )


def _queue_steps(old: QueueDefinition | None, new: QueueDefinition) -> Iterator[Step]:
    target = path_of("queues", new.path)
    was = old or msgspec.structs.replace(new, poison_queue="", access=None)
    if new.transactional is not UNSET and was.transactional != new.transactional:
        changed = {"transactional": f"{was.transactional} -> {new.transactional}"}
        yield Step("queue", new.path, "conflict", changed)
    changes = _changes(was, new, QueueSetBody.__struct_fields__)
    if changes.get("type_id", "") is None:
        changes["type_id"] = NO_TYPE
    if changes:
        change = _body(QueueSetBody, changes)
        yield Step(
            "queue",
            new.path,
            "change",
            _shown(was, changes),
            lambda remote: remote.ask(QueueJson, "PATCH", target, body=change),
        )
    if isinstance(new.access, list) and _listed(new.access) != _listed(was.access):
        access = _body(AccessSetBody, {"entries": msgspec.to_builtins(new.access)})
        yield Step(
            "access",
            new.path,
            "change",
            {one.who: f"{'not ' * one.denied}{','.join(one.rights)}" for one in new.access},
            lambda remote: remote.ask(
                AccessJson, "PUT", path_of("queues", new.path, "access"), body=access
            ),
        )


def _listed(
    access: list[Access] | UnsetType | None,
) -> set[tuple[str, bool, tuple[str, ...]]] | None:
    if not isinstance(access, list):
        return None
    return {(one.who.lower(), one.denied, tuple(sorted(one.rights))) for one in access}


def _job_steps(old: JobQueueDefinition | None, new: JobQueueDefinition) -> Iterator[Step]:
    if old is None:
        names = ("name", "type", *MEMBERS)
        made: JobQueueCreateBody = _body(JobQueueCreateBody, _given(new, names))
        yield Step(
            "job queue",
            new.name,
            "create",
            {},
            lambda remote: remote.ask(JobQueueJson, "POST", path_of("job-queues"), body=made),
        )
        sets = (list(made.users), list(made.operators), list(made.servers))
        old = JobQueueDefinition(new.name, new.type, *sets, submit_from="", response_queue="")
    members = _changes(old, new, tuple(MEMBERS))
    if members:
        yield Step("job queue", new.name, "conflict", _shown(old, members))
    changes = _changes(old, new, ("submit_from", "response_queue"))
    if changes:
        change = _body(JobQueueSetBody, changes)
        target = path_of("job-queues", f"{new.type}:{new.name}")
        yield Step(
            "job queue",
            new.name,
            "change",
            _shown(old, changes),
            lambda remote: remote.ask(JobQueueJson, "PATCH", target, body=change),
        )


def _body(kind: type[msgspec.Struct], values: dict[str, Any]) -> Any:
    """A body of the API; values that it does not take end the command before anything changes."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(f"the file has a value that is not allowed: {error}") from None
