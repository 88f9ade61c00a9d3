"""Addresses that message buses write into headers: `queue@machine` of NServiceBus and Rebus."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from posthouse.model.errors import IllegalQueuePathname, QueueError
from posthouse.model.names import parse_name
from posthouse.model.text import excerpt

_THIS_MACHINE: Final = frozenset({"", ".", "localhost"})
_PREFIX: Final = "formatname:"
ADDRESS_LENGTH_MAX: Final = 1024


def queue_of_address(address: str) -> str:
    r"""The path name or format name of the private queue that an address means.

    `orders` and `orders@.` are queues of this machine, `orders@HOST` is
    `DIRECT=OS:HOST\private$\orders`, `orders@10.1.2.3` is a TCP name. Path names and format names
    stay as they are. `IllegalQueuePathname` where the result is not a name of a queue.
    """
    text = address.strip()
    if text.casefold().startswith(_PREFIX):
        text = text[len(_PREFIX) :]
    if len(text) > ADDRESS_LENGTH_MAX:
        raise IllegalQueuePathname(f"an address has at most {ADDRESS_LENGTH_MAX} characters")
    if "=" not in text and not _is_path(text):
        text = _private_queue(text)
    try:
        parse_name(text)
    except QueueError as error:
        raise IllegalQueuePathname(
            f"{excerpt(address)} does not name a queue: {error.cause}"
        ) from None
    return text


def _is_path(text: str) -> bool:
    """Whether a computer stands in front, as in `HOST\\private$\\orders`."""
    front, separator, _ = text.replace("/", "\\").partition("\\")
    return bool(separator) and front.casefold() != "private$"


def _private_queue(text: str) -> str:
    queue, _, machine = text.rpartition("@") if "@" in text else (text, "", "")
    queue = queue.replace("/", "\\")
    if queue.casefold().startswith("private$\\"):
        queue = queue[len("private$\\") :]
    if machine.casefold() in _THIS_MACHINE:
        return f".\\private$\\{queue}"
    try:
        ip_address(machine)
    except ValueError:
        return f"DIRECT=OS:{machine}\\private$\\{queue}"
    return f"DIRECT=TCP:{machine}\\private$\\{queue}"
