"""`posthouse doctor --peer`: whether messages will pass to and from another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import typer

from posthouse.api.types import QueueListJson, StatusJson
from posthouse.cli.connection import Remote, path_of
from posthouse.cli.contexts import Target
from posthouse.cli.exit_codes import DONE, REFUSED
from posthouse.cli.machines.options import login, places_of
from posthouse.cli.output import print_json, say
from posthouse.client.msmq import BINARY_PORT
from posthouse.client.remote.findings import PeerFinding
from posthouse.client.remote.local_checks import OwnSide, UnansweredQueue
from posthouse.client.remote.peer_check import PeerCheck
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.net.control_socket import default_home


def examine(
    peer: str,
    home: Path | None,
    user: str | None,
    password_file: Path | None,
    binary_port: int | None,
    timeout_s: float,
    *,
    json: bool,
) -> None:
    """Tries everything, reports each finding as it comes, and ends with 1 if something failed."""
    (place,) = places_of([peer])
    as_whom = login(user, password_file, None, None)
    check = PeerCheck(
        place,
        as_whom,
        binary_port=binary_port or BINARY_PORT,
        timeout_s=timeout_s,
        own_side=own_side(home),
    )
    healthy = True
    for finding in check.run():
        healthy = healthy and finding.state != "failed"
        if json:
            print_json({"peer": place.host, **msgspec.structs.asdict(finding)})
        else:
            _tell(finding)
    raise typer.Exit(DONE if healthy else REFUSED)


def own_side(home: Path | None) -> OwnSide | None:
    """The status of the queue manager here; None: none runs, which is not an error."""
    with Remote(Target(home or default_home()), json=False) as remote:
        try:
            status = remote.ask(StatusJson, "GET", path_of("status"))
            queues = list(_outgoing(remote))
        except (QueueError, RemoteProtocolError, OSError):
            return None
    return OwnSide(
        status.name,
        frozenset(status.own_hosts),
        status.takes_any_name,
        tuple(status.refused_names),
        status.host_change,
        tuple(queues),
        status.domain_trouble,
        status.guid,
    )


def _outgoing(remote: Remote) -> Iterator[UnansweredQueue]:
    """Outgoing queues with messages that have left; a few thousand queues are looked at."""
    found = remote.ask(QueueListJson, "GET", path_of("queues"), query={"outgoing": True})
    for queue in found.queues:
        sent = queue.outgoing
        waiting = 0 if sent is None else sent.unacknowledged - sent.unread
        if sent is not None and waiting > 0:
            yield UnansweredQueue(
                queue.format_name, waiting, queue.oldest_age_s or 0, tuple(sent.next_hops)
            )


def _tell(finding: PeerFinding) -> None:
    say(f"{finding.state.upper():<8} {finding.check}: {finding.found}.")
    if finding.remedy and finding.state != "ok":
        say(f"         {finding.remedy}")
