"""What is left to do for a cutover from another machine, as far as it can be seen from here."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from posthouse.api.types import QueueJson
from posthouse.client.manager import QueueManagerClient
from posthouse.client.remote.inventory import scan_machine
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.remote.pull.run import ask
from posthouse.model.errors import QueueError
from posthouse.model.names import FormatName

ASK_S: Final = 20.0


class CutoverFinding(msgspec.Struct, frozen=True):
    """One check: what was found, and what to do about it."""

    check: str
    state: Literal["ok", "left", "unknown"]
    found: str
    remedy: str = ""


def aliases_check(
    manager: QueueManagerClient, host: str, name: str, path: str | None
) -> CutoverFinding:
    """Whether this queue manager takes messages to the old name; `path` is a queue that is here."""
    if path is None:
        return CutoverFinding(
            "aliases", "unknown", "without a queue it cannot be tried", "Make the queues first."
        )
    renamed = f"DIRECT=OS:{host}\\{path.partition(chr(92))[2]}"
    try:
        found = ask(manager, QueueJson, "GET", f"/queues/{quote(renamed, safe='')}")
    except QueueError:
        return _no_alias(host, name)
    if found.outgoing is not None:
        return _no_alias(host, name)
    return CutoverFinding("aliases", "ok", f"{name} answers to {host}")


def _no_alias(host: str, name: str) -> CutoverFinding:
    return CutoverFinding(
        "aliases",
        "left",
        f"{name} does not take messages to {host}",
        f'Put the old names into posthouse.toml, [queue_manager] aliases = ["{host}"], and '
        "restart the queue manager.",
    )


def name_check(host: str) -> CutoverFinding:
    """Whether the old name leads to this machine."""
    try:
        there = {str(one[4][0]) for one in socket.getaddrinfo(host, 1801, type=socket.SOCK_STREAM)}
    except OSError as error:
        return CutoverFinding(
            "DNS",
            "left",
            f"{host} has no address: {error.strerror or error}",
            "Enter the name, as an alias (CNAME) of this machine.",
        )
    if all(_is_own(address) for address in there):
        return CutoverFinding("DNS", "ok", f"{host} is this machine")
    return CutoverFinding(
        "DNS",
        "left",
        f"{host} leads to {', '.join(sorted(there))}, not to this machine",
        "Once the readers work here: make the name an alias (CNAME) of this machine, with a short "
        "time to live before. Senders use the old address until their sessions end.",
    )


def _is_own(address: str) -> bool:
    """An address of this machine is one that a socket here can be bound to."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def still_there(
    place: RemotePlace, login: RemoteLogin, names: list[FormatName]
) -> Iterator[CutoverFinding]:
    """What the old machine has: in its queues, and on its way out."""
    machine = scan_machine(place, login, ASK_S)
    if not machine.reached:
        causes = "; ".join(problem.cause for problem in machine.problems)
        yield CutoverFinding(
            "old machine",
            "unknown",
            f"{place.host} does not answer management calls: {causes}",
            "Look there, or give --user; if it is switched off for good, this is as it should be.",
        )
        return
    wanted = {str(name).casefold() for name in names}
    left = [
        (queue.path, queue.messages)
        for queue in machine.queues
        if queue.messages and queue.format_name.casefold() in wanted
    ]
    if left:
        some = ", ".join(f"{path} {count:,}" for path, count in left[:5])
        yield CutoverFinding(
            "messages there",
            "left",
            f"{sum(count for _, count in left):,} messages are in {len(left):,} queues: {some}",
            "Pull them: posthouse migrate pull --inventory FILE, or switch with --follow.",
        )
    else:
        yield CutoverFinding("messages there", "ok", "its queues are empty")
    outgoing = [one for one in machine.outgoing if one.messages]
    if outgoing:
        waiting = sum(one.messages for one in outgoing)
        yield CutoverFinding(
            "outgoing there",
            "left",
            f"{waiting:,} messages wait there for other machines",
            "Let it send them before it is switched off: posthouse scan shows where they go.",
        )
    else:
        yield CutoverFinding("outgoing there", "ok", "nothing waits there for other machines")
