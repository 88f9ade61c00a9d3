"""`posthouse migrate plan`: creates the queues of an inventory here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import msgspec
import typer

from posthouse.api.access import AccessJson, GrantBody
from posthouse.api.types import (
    Done,
    QueueCreateBody,
    QueueJson,
    Right,
    UserListJson,
)
from posthouse.cli.command import talking, words
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.exit_codes import REFUSED
from posthouse.cli.migrate.sources import OnMachine, gaps_of, inventoried
from posthouse.cli.output import print_json, print_table, say
from posthouse.client.remote.inventory import MachineInventory, QueueInventory
from posthouse.model.errors import InvalidParameter, QueueError, QueueNotFound
from posthouse.model.names import PathName, parse_name
from posthouse.model.text import counted
from posthouse.security.rights import parse_rights

PROPERTIES_SIZE_MAX: Final = 64 << 20
UNLIMITED_KIB: Final = 0xFFFFFFFF
UNKNOWN: Final = {
    "transactional": "transactional",
    "journal": "journal",
    "label": "label",
    "quota_kib": "quota",
    "journal_quota_kib": "journal quota",
    "privacy": "privacy",
    "authenticated": "authentication",
}
"""Properties that a scan may not have, and how they are called."""
RIGHTS: Final = "Rights"
INTERNAL: Final = frozenset({"admin_queue$", "notify_queue$", "order_queue$", "triggers_queue$"})
"""Queues by which MSMQ works; a queue manager here has its own."""
WELL_KNOWN: Final = {
    "everyone": "everyone",
    "anonymous logon": "anonymous",
    "anonymous": "anonymous",
    "administrators": "administrators",
    "users": "users",
    "authenticated users": "users",
}


class PlannedQueue(msgspec.Struct):
    """A queue and its action: `create`, `exists`, `also`, `differs`, `skip`, `created`, `failed`.

    `also`: another machine has a queue of this name, and one queue here takes both.
    """

    host: str
    source: str
    path: str
    action: str
    properties: dict[str, Any] = {}
    differs: list[str] = []
    rights: list[str] = []
    unmapped: list[str] = []
    unknown: list[str] = []
    reason: str = ""


@talking
def plan(
    remote: Remote,
    inventory: Annotated[
        Path,
        typer.Argument(
            metavar="INVENTORY", help="Inventory: the file that `posthouse scan --output` wrote."
        ),
    ],
    machine: OnMachine = None,
    properties: Annotated[
        Path | None,
        typer.Option(
            "--properties",
            metavar="FILE",
            help="File with the output of Get-MsmqQueue | ConvertTo-Json there.",
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Create the queues (default: only show them).")
    ] = False,
) -> None:
    """Show which queues of another machine would be made here, and what of them is not known.

    With --apply the missing ones are made. Queues that exist are not changed, so it may be run
    again. Management calls give neither label, quota, privacy nor rights: --properties has them.

    Exit code 0: every queue is here or can be made, 1: something differs or failed, or the scan did
    not see everything.

    Example: posthouse migrate plan inventory.json
    """
    known = _properties_in(properties)
    planner = _Planner(remote, known, apply=apply)
    found = inventoried(inventory, machine)
    plans = [planner.plan(one, queue) for one in found for queue in one.queues]
    _tell(remote, plans, apply=apply)
    for one in found:
        _tell_gaps(remote, one)
    is_whole = all(one.complete for one in found)
    if not is_whole or any(one.action in ("differs", "failed") for one in plans):
        raise typer.Exit(REFUSED)


class _Planner:
    """Compares queues with those here, and makes what is missing."""

    def __init__(self, remote: Remote, known: dict[str, dict[str, Any]], *, apply: bool) -> None:
        self._remote = remote
        self._known = known
        self._apply = apply
        self._first: dict[str, PlannedQueue] = {}  # the first one of each name
        self._public = {one.path.casefold(): one for one in remote.client.find_queues()}
        users = remote.ask(UserListJson, "GET", path_of("users")).users
        self._users = {user.name.casefold(): user.name for user in users}

    def plan(self, machine: MachineInventory, queue: QueueInventory) -> PlannedQueue:
        """One queue."""
        parsed = parse_name(queue.path)
        planned = PlannedQueue(machine.host, queue.path, "", "skip")
        if not isinstance(parsed, PathName):
            planned.reason = f"a queue here cannot have the name {queue.path}"
            return planned
        planned.path = str(parsed.with_computer("."))
        if parsed.queue.casefold() in INTERNAL:
            planned.reason = "a system queue of MSMQ; the queue manager here has its own"
            return planned
        self._add_properties(planned, queue, planned.path)
        self._add_rights(planned)
        first = self._first.setdefault(planned.path.casefold(), planned)
        if first is planned:
            self._compare(planned)
        else:
            self._merge(first, planned)
        return planned

    def _merge(self, first: PlannedQueue, planned: PlannedQueue) -> None:
        """The second queue of a name: what is here, or will be, is the first one's."""
        planned.reason = f"also on {first.host}"
        if first.action == "create":
            planned.differs += [
                f"{name} is {value} there, {first.properties[name]} on {first.host}"
                for name, value in planned.properties.items()
                if name in first.properties and first.properties[name] != value
            ]
            planned.action = "differs" if planned.differs else "also"
        else:
            self._compare(planned)
            planned.action = "also" if planned.action == "exists" else planned.action
        if planned.action == "also":
            planned.reason += "; one queue here takes both"

    def _add_properties(self, planned: PlannedQueue, queue: QueueInventory, path: str) -> None:
        given, known = planned.properties, self._known.get(_key(path), {})
        if queue.transactional is not None:
            given["transactional"] = queue.transactional
        if queue.journal_messages:
            given["journal"] = True
        public = self._public.get(queue.path.casefold())
        if public is not None:
            given |= {
                "label": public.label,
                "transactional": public.transactional,
                "journal": public.journaling,
                "authenticated": public.authenticated,
            }
        given |= _of_windows(known)
        planned.unknown += [word for name, word in UNKNOWN.items() if name not in given]
        if RIGHTS not in known:
            planned.unknown.append("rights")

    def _add_rights(self, planned: PlannedQueue) -> None:
        for account, rights in self._known.get(_key(planned.path), {}).get(RIGHTS, []):
            name = account.rpartition("\\")[2].casefold()
            who = WELL_KNOWN.get(name) or self._users.get(name)
            if who is None:
                planned.unmapped.append(f"{account}: {rights}")
            else:
                planned.rights.append(f"{who}: {rights}")

    def _compare(self, planned: PlannedQueue) -> None:
        try:
            here = self._remote.ask(QueueJson, "GET", path_of("queues", planned.path))
        except QueueNotFound:
            planned.action = "create"
            if self._apply:
                self._make(planned)
            return
        for name, value in planned.properties.items():
            if getattr(here, name) != value:
                planned.differs.append(f"{name} is {getattr(here, name)}, there {value}")
        planned.differs += self._missing_rights(planned)
        planned.action = "differs" if planned.differs else "exists"

    def _missing_rights(self, planned: PlannedQueue) -> Iterator[str]:
        """Rights that a queue here does not give, such as one whose making was cut off."""
        if not planned.rights:
            return
        path = path_of("queues", planned.path, "access")
        entries = self._remote.ask(AccessJson, "GET", path).entries
        for line in planned.rights:
            who, _, wanted = line.partition(": ")
            given = {
                right
                for one in entries
                if one.who == who and not one.denied
                for right in one.rights
            }
            if parse_rights(wanted) & ~(parse_rights(",".join(given)) if given else 0):
                yield f"{who} lacks rights of {wanted}"

    def _make(self, planned: PlannedQueue) -> None:
        try:
            body = msgspec.convert(
                {"path": planned.path} | planned.properties, QueueCreateBody, strict=True
            )
            self._remote.ask(QueueJson, "POST", path_of("queues"), body=body)
            for line in planned.rights:
                who, _, rights = line.partition(": ")
                grant = GrantBody(who=who, rights=rights.split(","))  # type: ignore[arg-type]
                path = path_of("queues", planned.path, "access", "grant")
                self._remote.ask(Done, "POST", path, body=grant)
            planned.action = "created"
        except (QueueError, msgspec.ValidationError) as error:
            planned.action, planned.reason = "failed", str(error)


# -- what Windows prints


def _properties_in(path: Path | None) -> dict[str, dict[str, Any]]:
    """The objects of a file, by the name of their queue."""
    if path is None:
        return {}
    with path.open("rb") as file:
        data = file.read(PROPERTIES_SIZE_MAX)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        found = json.loads(data.decode(encoding))
    except ValueError as error:
        raise InvalidParameter(
            f"{path} is not JSON: {error}", "Write it with Get-MsmqQueue | ConvertTo-Json."
        ) from None
    objects = found if isinstance(found, list) else [found]
    if not all(isinstance(one, dict) and one.get("QueueName") for one in objects):
        raise InvalidParameter(
            f"{path} has an object without QueueName",
            "Select QueueName as well: Get-MsmqQueue | Select QueueName, ... | ConvertTo-Json.",
        )
    return {
        _key(str(one["QueueName"])): one | {RIGHTS: list(_rights_in(path, one[RIGHTS]))}
        if RIGHTS in one
        else one
        for one in objects
    }


def _rights_in(path: Path, found: Any) -> Iterator[tuple[str, str]]:
    """Accounts and their rights, in the words of the API; a list of one may be the one itself."""
    for entry in found if isinstance(found, list) else [found]:
        account = entry.get("Account") if isinstance(entry, dict) else None
        rights = entry.get(RIGHTS) if isinstance(entry, dict) else None
        listed = ",".join(map(str, rights)) if isinstance(rights, list) else rights
        if not isinstance(account, str) or not isinstance(listed, str):
            raise InvalidParameter(
                f"{path} has an entry of {RIGHTS} without Account or {RIGHTS}",
                'Write {"Account": "DOMAIN\\\\name", "Rights": ["send"]}.',
            )
        yield account, ",".join(words(listed, get_args(Right), "right"))


def _key(path: str) -> str:
    """A queue on its machine: `private$\\orders`, with or without the computer in front."""
    parts = path.replace("/", "\\").split("\\")
    if len(parts) > 1 and parts[-2].casefold() == "private$":
        return f"private$\\{parts[-1]}".casefold()
    return parts[-1].casefold()


def _of_windows(known: dict[str, Any]) -> dict[str, Any]:
    """Properties as the API names them; those that the file does not have are left out."""
    given = dict(_plain(known))
    for name, theirs in (
        ("quota_kib", "MaximumQueueSize"),
        ("journal_quota_kib", "MaximumJournalSize"),
    ):
        size = known.get(theirs)
        if isinstance(size, int) and not isinstance(size, bool):
            given[name] = None if size < 0 or size >= UNLIMITED_KIB else size
    privacy = known.get("EncryptionRequired")
    levels = {0: "none", 1: "optional", 2: "body", "None": "none", "Optional": "optional"}
    if privacy is not None:
        given["privacy"] = levels.get(privacy, "body" if privacy == "Body" else "optional")
    return given


def _plain(known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, theirs, kind in (
        ("label", "Label", str),
        ("transactional", "Transactional", bool),
        ("journal", "UseJournalQueue", bool),
        ("authenticated", "Authenticate", bool),
        ("base_priority", "BasePriority", int),
    ):
        value = known.get(theirs)
        if isinstance(value, kind):
            yield name, value


# -- for people


def _tell(remote: Remote, plans: list[PlannedQueue], *, apply: bool) -> None:
    if remote.json:
        for one in plans:
            print_json(one)
        return
    rows = [
        (one.path or one.source, one.host, one.action, _words(one), ", ".join(one.unknown))
        for one in plans
    ]
    print_table("", ("queue", "machine", "action", "properties", "not known"), rows)
    for one in plans:
        for line in one.unmapped:
            say(f"  {one.path}: no account here for {line}")
        if one.reason:
            say(f"  {one.path or one.source}: {one.reason}")
    missing = sum(one.action == "create" for one in plans)
    if missing and not apply:
        say(f"Would create {counted(missing, 'queue')}. Add --apply to create them.")


def _words(planned: PlannedQueue) -> str:
    if planned.differs:
        return "; ".join(planned.differs)
    given = [
        UNKNOWN.get(name, name) if value is True else f"{UNKNOWN.get(name, name)}={value}"
        for name, value in planned.properties.items()
        if value not in (False, "", None)
    ]
    return ", ".join([*given, *planned.rights])


def _tell_gaps(remote: Remote, machine: MachineInventory) -> None:
    """What the inventory itself lacks."""
    if remote.json:
        return
    for line in gaps_of(machine):
        say(f"  {line}")
    for outgoing in machine.outgoing:
        if outgoing.messages:
            say(
                f"  {machine.host}: {counted(outgoing.messages, 'message')} waiting there for "
                f"{outgoing.format_name}; that machine still sends them"
            )
