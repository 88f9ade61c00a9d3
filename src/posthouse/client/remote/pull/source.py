"""The source of a pull: the GUID of its queue manager, and its queue name there.

A machine's GUID is in names that have one, else it is asked for by opening a session of the binary
protocol (TCP 1801), which both sides begin with their GUIDs.
"""

from __future__ import annotations

from typing import Final

from posthouse.client.binary.sender import BinarySender
from posthouse.client.errors import ServerUnreachable
from posthouse.client.remote.connect import LoginDenied, NotReached, OtherService, reason_of
from posthouse.client.remote.management import (
    MESSAGE_COUNT,
    PRIVATE_QUEUES,
    RemoteManagement,
)
from posthouse.model.errors import InvalidParameter, QueueError, RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.names import (
    DirectName,
    FormatName,
    MachineName,
    PathName,
    PrivateName,
    parse_format_name,
    parse_name,
)
from posthouse.model.queue_name_parts import Suffix
from posthouse.protocols.binary.settings import BinarySettings

ASK_S: Final = 10.0
OPEN_BINARY: Final = (
    "Open TCP 1801 there, or name the GUID: posthouse migrate pull --guid. Messages are known by "
    "it, so that none is taken twice."
)
COMPARE_S: Final = 3.0
"""How long a machine is asked for its GUID that was given: its port may be closed."""


def source_name(name: FormatName, path: str = "") -> str:
    """The name of a queue on its own machine, whichever name the machine has.

    A path name, where one is known, goes first: a queue has one, and several format names.
    """
    parsed = parse_name(path) if path else None
    if isinstance(parsed, PathName):
        return str(parsed).partition("\\")[2].casefold()
    if isinstance(name, DirectName):
        return str(name.path).partition("\\")[2].casefold()
    return str(name).casefold()


def guid_in_name(name: FormatName) -> bytes | None:
    """The GUID of the queue manager, where a name has it."""
    if isinstance(name, PrivateName | MachineName):
        return name.guid
    return None


class GuidNotReached(NotReached):
    """A machine that cannot be asked for its GUID."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        ServerUnreachable.__init__(self, f"{_unasked(host, port)}: {error}", OPEN_BINARY)
        self.reason = reason_of(error)


def _unasked(host: str, port: int) -> str:
    return f"the queue manager of {host} cannot be asked for its GUID at port {port}"


def guid_of_machine(host: str, port: int, timeout_s: float = ASK_S) -> bytes:
    """The GUID that a queue manager gives when a session is opened; no message is sent."""
    sender = BinarySender(host, port, timeout_s, BinarySettings())
    try:
        sender.connect()
        guid = sender.peer_guid
    except OSError as error:
        raise GuidNotReached(host, port, error) from None
    except RemoteProtocolError as error:
        raise OtherService(f"{_unasked(host, port)}: {error}", OPEN_BINARY) from None
    finally:
        sender.close()
    if guid == NULL_GUID:
        raise RemoteProtocolError(f"{host} has no GUID")
    return guid


def check_guid(host: str, port: int, guid: bytes, remedy: str) -> None:
    """Refuses a GUID that is not the machine's, where the machine can be asked for its own."""
    try:
        found = guid_of_machine(host, port, COMPARE_S)
    except (ServerUnreachable, RemoteProtocolError):
        return
    if found != guid:
        raise InvalidParameter(
            f"the GUID of {host} at port {port} is {format_guid(found)}, and not "
            f"{format_guid(guid)}",
            f"{remedy} If name or port lead to another machine, name the address and the port of "
            "the machine that you mean: --address, --binary-port.",
        )


def check_doors(management: RemoteManagement, guid: bytes, port: int) -> None:
    """Refuse a GUID that one port of a host gave, where another port leads to another machine.

    The machine that answers remote procedure calls is asked for its dead letters by its name, and
    by that GUID. One that does not answer the first question to this user is not judged.
    """
    try:
        computer = computer_of(management)
        by_name = parse_format_name(f"DIRECT=OS:{computer}\\system$;deadletter")
        management.queue(by_name, MESSAGE_COUNT)
    except LoginDenied:
        raise
    except (QueueError, RemoteProtocolError, OSError):
        return
    by_guid = MachineName(guid, Suffix.DEADLETTER)
    try:
        management.queue(by_guid, MESSAGE_COUNT)
    except (RemoteProtocolError, OSError):
        return
    except QueueError:
        host = management.place.host
        raise InvalidParameter(
            f"{host} leads to two machines: the queue manager at port {port} has the GUID "
            f"{format_guid(guid)}, which is not that of {computer}, whose queues are read",
            f"Name the port of the binary protocol of {computer}: --binary-port. If its GUID is "
            "known, name that: --guid.",
        ) from None


def computer_of(management: RemoteManagement) -> str:
    """The name that a machine has for itself, as far as its private queues show it."""
    listed = management.machine(PRIVATE_QUEUES)[PRIVATE_QUEUES].value
    first = str(listed[0]) if isinstance(listed, tuple) and listed else management.place.host
    return first.partition("\\")[0]
