"""The options of `posthouse queue create` and `queue set`: the properties of a queue."""

from __future__ import annotations

from typing import Final

import typer

from posthouse.api.types import U32_MAX
from posthouse.cli.durations import whole_seconds
from posthouse.cli.name_hints import full_name
from posthouse.model.properties import ABORTS_MAX, RETRY_DELAY_MAX_S, RETRY_DELAYS_MAX

NO_QUOTA: Final = "none"

Label = typer.Option("--label", metavar="TEXT", help="Label: a description for people.")
PrivacyLevel = typer.Option(
    "--privacy",
    metavar="none|optional|body",
    help="Encryption of bodies: never, as the sender chooses, or always.",
)
Quota = typer.Option("--quota", metavar="KIB", help="Largest size of all messages, or none.")
JournalQuota = typer.Option(
    "--journal-quota", metavar="KIB", help="Largest size of the journal, or none."
)
BasePriority = typer.Option(
    "--base-priority",
    metavar="N",
    min=-32768,
    max=32767,
    help="Of a public queue: number that is added to the priority of messages while they "
    "are routed.",
)
Multicast = typer.Option(
    "--multicast", metavar="A.B.C.D:PORT", help="Multicast group that the queue receives from."
)
TypeId = typer.Option("--type", metavar="GUID", help="Type of the queue, a GUID for applications.")


def _poison_queue(name: str) -> str:
    """A subqueue of the queue itself, after its semicolon, or a queue as it is named elsewhere."""
    return name if name.startswith(";") else str(full_name(name))


MaxAborts = typer.Option(
    "--max-aborts",
    metavar="N",
    min=0,
    max=ABORTS_MAX,
    help="Number of aborts after which a message is moved to the poison queue; 0: never.",
)
PoisonQueue = typer.Option(
    "--poison-queue",
    metavar="NAME",
    parser=_poison_queue,
    help="Poison queue: a subqueue such as ;poison (the default), or another queue.",
)
RetryDelays = typer.Option(
    "--retry-delays",
    metavar="TIME,...",
    help="Retry delays: pauses before a message is delivered again after each abort, such as "
    "1s,10s,5m; '' for none.",
)
CodePage = typer.Option(
    "--code-page",
    metavar="N",
    help="Code page of the senders, for bodies of type VT_LPSTR; '' for 1252.",
)


def delays(text: str) -> list[int]:
    """Durations separated by commas, in whole seconds."""
    parts = text.split(",") if text else []
    if len(parts) > RETRY_DELAYS_MAX:
        raise typer.BadParameter(f"a queue has at most {RETRY_DELAYS_MAX} retry delays")
    parse = whole_seconds(RETRY_DELAY_MAX_S)
    return [parse(part) for part in parts]


def quota_of(text: str) -> int | None:
    """A quota in KiB, or none."""
    if text.lower() == NO_QUOTA:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:12]) < U32_MAX):
        raise typer.BadParameter(f"a quota is a number of KiB up to {U32_MAX - 1}, or none")
    return int(text)
