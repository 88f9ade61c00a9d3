"""The source of a pull: the GUID of its queue manager, and its queue name there.

A machine's GUID is in names that have one, else it is asked for by opening a session of the binary
protocol (TCP 1801), which both sides begin with their GUIDs.
"""

from __future__ import annotations

from typing import Final

from posthouse.client.binary.sender import BinarySender
from posthouse.client.errors import ServerUnreachable
from posthouse.client.remote.pull.run import PullSource
from posthouse.model.errors import InvalidParameter, RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.names import (
    DirectName,
    FormatName,
    MachineName,
    PathName,
    PrivateName,
    parse_name,
)
from posthouse.protocols.binary.settings import BinarySettings

ASK_S: Final = 10.0
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


def guid_of_machine(host: str, port: int, timeout_s: float = ASK_S) -> bytes:
    """The GUID that a queue manager gives when a session is opened; no message is sent."""
    sender = BinarySender(host, port, timeout_s, BinarySettings())
    try:
        sender.connect()
        guid = sender.peer_guid
    except (OSError, RemoteProtocolError) as error:
        raise ServerUnreachable(
            f"the queue manager of {host} cannot be asked for its GUID at port {port}: {error}",
            "Open TCP 1801 there, or name the GUID: posthouse migrate pull --guid. Messages are "
            "known by it, so that none is taken twice.",
        ) from None
    finally:
        sender.close()
    if guid == NULL_GUID:
        raise RemoteProtocolError(f"{host} has no GUID")
    return guid


def find_source(
    host: str, name: FormatName, port: int, guid: bytes | None, path: str = ""
) -> PullSource:
    """The source of a pull. A GUID that is given has to be that of the machine, if it is named."""
    named = guid_in_name(name)
    if guid is not None and named is not None and guid != named:
        raise InvalidParameter(f"{name} is a queue of another machine than --guid names")
    found = named or guid or guid_of_machine(host, port)
    return PullSource(found, source_name(name, path), host.casefold())


def check_guid(host: str, port: int, guid: bytes) -> None:
    """Refuses a GUID that is not the machine's, where the machine can be asked for its own."""
    try:
        found = guid_of_machine(host, port, COMPARE_S)
    except (ServerUnreachable, RemoteProtocolError):
        return
    if found != guid:
        raise InvalidParameter(
            f"the GUID of {host} is {format_guid(found)}, and not {format_guid(guid)}",
            "Leave --guid out. If the name leads to another machine by now, name the address of "
            "the machine that you mean: --address.",
        )
