"""`posthouse directory user|alias|queue`: users with certificates, aliases, public queues."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from posthouse.api.certificates import UserKeysJson
from posthouse.api.directory import DirectoryChangeJson
from posthouse.api.directory_names import (
    DirectoryUserBody,
    PublicQueueListJson,
)
from posthouse.cli.command import DryRun, Yes, confirm, group, guid, talking
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.directory.shared import (
    Many,
    Name,
    changed,
    document_of,
    given,
    named,
    print_parts,
    remove_object,
    tell,
    tell_where,
)
from posthouse.cli.output import print_json, print_table, say
from posthouse.directory.document.document import AliasPart, Document, QueuePart
from posthouse.directory.document.fields import certificates_read
from posthouse.model.errors import InvalidCertificate, InvalidParameter
from posthouse.model.message_json import parse_time
from posthouse.model.text import counted, excerpt
from posthouse.security.certificates import certificate_facts

FILE_SIZE_MAX = 1 << 20
DIGEST = re.compile("[0-9a-fA-F]{32}")
UserName = Annotated[
    str,
    typer.Argument(
        metavar="USER", help="SID of the user, or name of an account of this queue manager."
    ),
]


def _moment(words: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="TIME", help=words)
    return option


def register(inner: typer.Typer) -> None:
    """Add the commands below `directory`."""
    user = group(inner, "user", "", "Users and the certificates they sign with.")
    user.command("create")(add_user)
    user.command("list")(list_users)
    user.command("delete")(remove_user)
    alias = group(inner, "alias", "", "Aliases of queues: create, list, delete.")
    alias.command("create")(add_alias)
    alias.command("list")(list_aliases)
    alias.command("delete")(remove_alias)
    queue = group(inner, "queue", "", "Public queues of all machines: create, find, list, delete.")
    queue.command("create")(add_queue)
    queue.command("find")(find_queues)
    queue.command("list")(list_queues)
    queue.command("delete")(remove_queue)


# -- users


@talking
def add_user(
    remote: Remote,
    user: UserName,
    certificate: Annotated[
        list[Path] | None,
        typer.Option(
            "--certificate",
            metavar="FILE",
            help="Certificate in PEM or DER, or output of `cert export --user`; repeat it for "
            "several.",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the user, for people.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Add a user or a certificate to the directory, so that its signatures are accepted.

    Name a user without an account here by SID, which `posthouse user list` on the other machine
    shows.

    Example: posthouse directory user create S-1-5-21-1-2-3-1001 --name Ada --certificate ada.pem
    """
    files = [_read(file) for file in certificate or []]
    _enter(remote, DirectoryUserBody(user=user, name=name, certificates=files, dry_run=dry_run))


def _enter(remote: Remote, body: DirectoryUserBody) -> None:
    path = path_of("directory", "users")
    tell(remote, remote.ask(DirectoryChangeJson, "POST", path, body=body))


def _read(file: Path) -> bytes:
    try:
        if file.stat().st_size > FILE_SIZE_MAX:
            raise InvalidParameter(f"{file} is too large for a certificate")
        data = file.read_bytes()
    except OSError as error:
        raise InvalidParameter(f"{file} cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=UserKeysJson).certificate
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data


@talking
def list_users(remote: Remote) -> None:
    """List the users of the directory, with the digests of their certificates.

    Example: posthouse directory user list
    """
    print_parts(
        remote,
        document_of(remote).users,
        ("user", "sid", "certificates"),
        lambda part: (
            part.name,
            part.sid,
            "; ".join(
                _shown(one.certificate, one.digest) for one in certificates_read(part.certificates)
            ),
        ),
    )


def _shown(certificate: bytes, digest: bytes) -> str:
    try:
        facts = certificate_facts(certificate)
    except InvalidCertificate:
        return f"{digest.hex()} (no certificate)"
    ends = datetime.fromtimestamp(facts.not_after_s, UTC).date().isoformat()
    return f"{digest.hex()} {facts.subject} until {ends}"


def _digests(texts: Many) -> Many:
    for text in texts or ():
        if DIGEST.fullmatch(text) is None:
            raise typer.BadParameter(
                f"{excerpt(text)} is not a digest: 32 hexadecimal digits, as `user list` shows them"
            )
    return texts


@talking
def remove_user(
    remote: Remote,
    user: UserName,
    certificate: Annotated[
        Many,
        typer.Option(
            "--certificate",
            metavar="DIGEST",
            help="Delete only the certificate with this digest, as `user list` shows it; repeat "
            "it for several.",
            callback=_digests,
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a user or one certificate from the directory. Its signatures are no longer trusted.

    Example: posthouse directory user delete Ada --yes
    """
    if not certificate:
        remove_object(remote, "user", user, dry_run, yes)
        return
    if not dry_run:
        confirm(lambda: f"Remove {counted(len(certificate), 'certificate')} of {user}?", yes)
    _enter(remote, DirectoryUserBody(user=user, withdraw=certificate, dry_run=dry_run))


# -- aliases


@talking
def add_alias(
    remote: Remote,
    name: Name,
    queue: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE",
            help="Target: format name, path of a public queue, list or alias.",
            callback=named,
        ),
    ],
    description: Annotated[str | None, typer.Option("--description", help="Description.")] = None,
) -> None:
    """Create or change an alias of a queue. Send to it as DL= and its GUID.

    Example: posthouse directory alias create Till 'DIRECT=OS:beta\\private$\\till'
    """
    said = given(description=description)
    part = AliasPart(name=name, queue=queue, **said)
    changed(remote, Document(aliases=[part]), only=["name", "queue", *said])
    tell_where(remote, document_of(remote).aliases, name)


@talking
def list_aliases(remote: Remote) -> None:
    """List the queue aliases.

    Example: posthouse directory alias list
    """
    print_parts(
        remote,
        document_of(remote).aliases,
        ("alias", "send to", "stands for", "description"),
        lambda part: (part.name, f"DL={part.guid}", part.queue, part.description),
    )


@talking
def remove_alias(remote: Remote, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a queue alias from the directory.

    Example: posthouse directory alias delete Till --yes
    """
    remove_object(remote, "alias", name, dry_run, yes)


# -- public queues


@talking
def add_queue(
    remote: Remote,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Path name of the public queue, HOST\\NAME.")
    ],
    identifier: Annotated[
        str,
        typer.Argument(metavar="GUID", help="GUID of the queue, as `queue show` there shows it."),
    ],
    label: Annotated[str | None, typer.Option("--label", help="Label of the queue.")] = None,
    type_guid: Annotated[
        str | None, typer.Option("--type", help="Service type of the queue, a GUID.")
    ] = None,
    transactional: Annotated[
        bool,
        typer.Option(
            "--transactional", help="The queue is transactional. This cannot be changed later."
        ),
    ] = False,
    authenticated: Annotated[
        bool | None,
        typer.Option(
            "--authenticated/--no-authenticated", help="The queue takes signed messages only."
        ),
    ] = None,
) -> None:
    """Add a public queue of another machine to the directory, or change its entry.

    Queues of this machine are added by posthouse queue create 'HOST\\name'. Options that you leave
    out are not changed.

    Example: posthouse directory queue create 'BETA\\orders' 5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b77
    """
    service = guid(type_guid) if type_guid else type_guid
    said = given(label=label, type=service, authenticated=authenticated)
    if transactional:
        said["transactional"] = True
    part = QueuePart(path=path, guid=guid(identifier), **said)
    changed(remote, Document(queues=[part]), only=["path", *said])


@talking
def list_queues(remote: Remote) -> None:
    """List the public queues of all machines.

    Example: posthouse directory queue list
    """
    _search(remote, {})


@talking
def find_queues(
    remote: Remote,
    type_guid: Annotated[
        str | None,
        typer.Option("--type", metavar="GUID", help="Find queues of this service type, a GUID."),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Find queues with exactly this label.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", help="Find queues of this computer.")
    ] = None,
    created_after: Annotated[str | None, _moment("Find queues created after this time.")] = None,
    created_before: Annotated[str | None, _moment("Find queues created before this time.")] = None,
    modified_after: Annotated[str | None, _moment("Find queues changed after this time.")] = None,
    modified_before: Annotated[str | None, _moment("Find queues changed before this time.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Show at most this many queues.")] = 1000,
) -> None:
    """Find public queues by label, type, computer, and time of creation or change.

    Times are 2026-11-16 or 2026-11-16T12:00:00+01:00; without a zone they are in UTC.

    Example: posthouse directory queue find --label orders --created-after 2026-01-01
    """
    times = {
        "created_after": created_after,
        "created_before": created_before,
        "modified_after": modified_after,
        "modified_before": modified_before,
    }
    query: dict[str, str | int] = {
        name: datetime.fromtimestamp(parse_time(text), UTC).isoformat()
        for name, text in times.items()
        if text is not None
    }
    if type_guid is not None:
        query["type"] = guid(type_guid)
    asked = {"label": label, "machine": machine, "limit": limit}
    _search(remote, query | {name: one for name, one in asked.items() if one is not None})


def _search(remote: Remote, query: dict[str, str | int]) -> None:
    path = path_of("directory", "queues")
    found = remote.ask(PublicQueueListJson, "GET", path, query=query)
    if remote.json:
        for queue in found.queues:
            print_json(queue)
        return
    rows = (
        (
            one.path,
            one.format_name,
            one.label,
            "transactional" if one.transactional else "",
            one.created_time,
        )
        for one in found.queues
    )
    print_table("", ("queue", "format name", "label", "kind", "created"), rows)
    if found.left_off:
        say(f"{found.left_off:,} more match; raise --limit to see them.")


@talking
def remove_queue(
    remote: Remote,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Path name of the public queue, HOST\\NAME.")
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a public queue of another machine from the directory. The queue itself stays.

    Example: posthouse directory queue delete 'BETA\\orders' --yes
    """
    remove_object(remote, "queue", path, dry_run, yes)
