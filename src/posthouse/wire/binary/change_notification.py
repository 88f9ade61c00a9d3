"""Change notifications: the bodies of messages to `notify_queue$` ([MS-MQCN] 2.2).

Queue managers send version 2 to each other; version 1 came from old directory servers, is
recognised and has no effect (routing-and-directory-facts, section 3).
"""

import re
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket, QueueError
from posthouse.model.guids import format_guid, parse_guid

NOTIFY_QUEUE_NUMBER: Final = 3
SERVER_LENGTH_MAX: Final = 256
_VERSION_1: Final = 1
_VERSION_2: Final = 2
_HEAD: Final = 2
_UPDATE_REST: Final = 16 + 24 + 1  # GuidMasterId, Reserved, NumberOfProperties
_BODY_SIZE_MAX: Final = 4096

_TEXT: Final = re.compile(
    r"<Notification><Event>(\d{1,9})</Event><ObjectGuid>([0-9A-Fa-f-]{36})</ObjectGuid ?>"
    r"<DomainController>([\x21-\x3b\x3d-\x7e]{1,256})</DomainController></Notification>"
)
_UNFIT: Final = re.compile(r"[^\x21-\x3b\x3d-\x7e]")


class Notification(NamedTuple):
    """One change: what happened (1 to 4), to which object, and the server that has the change."""

    event: int
    identifier: bytes
    server: str


class OldUpdate(NamedTuple):
    """What can be read of a notification of version 1: the number of updates, the first object."""

    updates: int
    command: int
    identifier: bytes
    pathname: str


def pack_notification(notification: Notification) -> bytes:
    """The body of version 2; the last byte is the unused one that senders append."""
    text = (
        f"<Notification><Event>{notification.event}</Event>"
        f"<ObjectGuid>{format_guid(notification.identifier)}</ObjectGuid>"
        f"<DomainController>{_fit(notification.server)}</DomainController></Notification>"
    )
    return bytes((_VERSION_2, 1)) + text.encode("utf-16-le") + b"\0"


def _fit(server: str) -> str:
    """The name of a server in the characters that are left for it."""
    return _UNFIT.sub("-", server)[:SERVER_LENGTH_MAX] or "-"


def unpack_notification(body: bytes) -> Notification | OldUpdate:
    """A notification of either version. Raises MalformedPacket for anything else."""
    if len(body) < _HEAD or not body[1]:
        raise MalformedPacket("a change notification without a change")
    if body[0] == _VERSION_1:
        return _old_update(body)
    if body[0] != _VERSION_2 or body[1] != 1:
        raise MalformedPacket(f"a change notification of version {body[0]} with {body[1]} changes")
    if len(body) > _BODY_SIZE_MAX:
        raise MalformedPacket(f"a change notification of {len(body)} bytes")
    text = body[_HEAD : len(body) - len(body) % 2]
    try:
        found = _TEXT.fullmatch(text.decode("utf-16-le").rstrip("\0"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise MalformedPacket("a change notification with another text")
    try:
        return Notification(int(found[1]), parse_guid(found[2]), found[3])
    except QueueError as error:
        raise MalformedPacket(f"a change notification: {error.cause}") from None


def _old_update(body: bytes) -> OldUpdate:
    """The head of the first update; what follows depends on its properties."""
    rest = body[_HEAD:]
    if len(rest) < 2:
        raise MalformedPacket("a change notification that breaks off")
    command, has_guid = rest[0], rest[1]
    if has_guid:
        identifier, pathname, end = rest[2:18], "", 18
    else:
        identifier, (pathname, end) = b"", _text(rest, 2)
    if len(rest) < end + _UPDATE_REST:
        raise MalformedPacket("a change notification that breaks off")
    return OldUpdate(body[1], command, identifier, pathname)


def _text(data: bytes, start: int) -> tuple[str, int]:
    for at in range(start, len(data) - 1, 2):
        if data[at : at + 2] == b"\0\0":
            return data[start:at].decode("utf-16-le", "replace"), at + 2
    raise MalformedPacket("a change notification with a path name without an end")
