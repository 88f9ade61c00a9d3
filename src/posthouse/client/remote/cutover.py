"""What is left to do for a cutover from another machine, as far as it can be seen from here."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from posthouse.api.types import QueueJson
from posthouse.client.manager import QueueManagerClient
from posthouse.client.remote.inventory import MachineInventory
from posthouse.client.remote.pull.run import ask
from posthouse.client.remote.pull.verify import unreadable_words
from posthouse.model.errors import QueueError
from posthouse.model.text import counted

SHOWN_MAX: Final = 5


class CutoverFinding(msgspec.Struct, frozen=True):
    """One check: what was found, and what to do about it."""

    check: str
    state: Literal["ok", "todo", "unknown"]
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
        "todo",
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
            "todo",
            f"{host} has no address: {error.strerror or error}",
            "Enter the name, as an alias (CNAME) of this machine.",
        )
    if all(_is_own(address) for address in there):
        return CutoverFinding("DNS", "ok", f"{host} is this machine")
    return CutoverFinding(
        "DNS",
        "todo",
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


class LeftQueue(NamedTuple):
    """A queue of the old machine that has messages, and how many of them can be pulled."""

    path: str
    messages: int
    unreadable: int = 0


def not_asked(machine: MachineInventory) -> CutoverFinding:
    """The finding for a machine that answered no management call."""
    causes = "; ".join(problem.cause for problem in machine.problems)
    remedy = "Look there, or give --user; if it is switched off for good, this is as it should be."
    if machine.refuses_login:
        remedy = machine.problems[0].remedy
    return CutoverFinding(
        "old machine",
        "unknown",
        f"{machine.host} does not answer management calls: {causes}",
        remedy,
    )


def still_there(machine: MachineInventory, left: list[LeftQueue]) -> Iterator[CutoverFinding]:
    """What the old machine has: in its queues, and on its way out."""
    readable = [one._replace(messages=one.messages - one.unreadable) for one in left]
    unreadable = [one._replace(messages=one.unreadable) for one in left]
    if not left:
        yield CutoverFinding("messages there", "ok", "its queues are empty")
    if some := [one for one in readable if one.messages]:
        yield CutoverFinding(
            "messages there",
            "todo",
            f"{_sum(some)} in {counted(len(some), 'queue')}: {_listed(some)}",
            "Pull them: posthouse migrate pull --inventory FILE, or switch with --follow.",
        )
    if some := [one for one in unreadable if one.messages]:
        yield CutoverFinding(
            "unreadable there",
            "todo",
            f"{unreadable_words(sum(one.messages for one in some))}, in {_listed(some)}",
            "They cannot be pulled: look at them there before it is switched off.",
        )
    outgoing = [one for one in machine.outgoing if one.messages]
    if outgoing:
        waiting = sum(one.messages for one in outgoing)
        yield CutoverFinding(
            "outgoing there",
            "todo",
            f"{counted(waiting, 'message')} waiting there for other machines",
            "Let it send them before it is switched off: posthouse scan shows where they go.",
        )
    else:
        yield CutoverFinding("outgoing there", "ok", "nothing waits there for other machines")


def _sum(left: list[LeftQueue]) -> str:
    return counted(sum(one.messages for one in left), "message")


def _listed(left: list[LeftQueue]) -> str:
    return ", ".join(f"{one.path} {one.messages:,}" for one in left[:SHOWN_MAX])
