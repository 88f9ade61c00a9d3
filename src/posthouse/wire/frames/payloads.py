"""The payloads of client sessions that are MessagePack: one structure for each kind of frame.

`posthouse.wire.frames.frames` has the kinds, the packed payloads and the frames themselves.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from posthouse.model.enumerations import MessageSeekAction, QueueAccessType, QueueShareMode

VERSION: Final = 1
REVISION: Final = 2  # what WELCOME states: 2 takes OWN_TRANSACTION and handles from `early_handle`

OWN_TRANSACTION: Final = 0xFFFFFFFF  # in a SEND: its messages are a transaction of their own
RECEIVED_AT_ONCE: Final = 1_000  # messages in one turn; a RECEIVE of more goes on in the next
_EARLY: Final = 0x80000000


def early_handle(request: int) -> int:
    """The handle of a transaction by the number of its BEGIN, before that is answered; 0: none."""
    return _EARLY | request if request < _EARLY - 1 else 0


U32 = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]
U63 = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFFFFFFFFFF)]  # what the decoder can bound
Text = Annotated[str, msgspec.Meta(max_length=65536)]
Guid = Annotated[bytes, msgspec.Meta(max_length=16)]  # 16 bytes, or none
Name = Annotated[str, msgspec.Meta(max_length=256)]


class Payload(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The payload of a frame that is not packed."""


# -- requests


class Hello(Payload):
    """The first frame. A session with a name (16 random bytes) can be taken up again."""

    version: U32 = VERSION
    session: Guid = b""
    client: Annotated[str, msgspec.Meta(max_length=256)] = ""


class Open(Payload):
    """Opens a queue by any of its names; answered by OPENED."""

    name: Text
    access: QueueAccessType
    share: QueueShareMode = QueueShareMode.DENY_NONE


class Close(Payload):
    """Closes a queue; what was received through it and not ended is back in it."""

    queue: U32


class OpenCursor(Payload):
    """Opens a cursor of an open queue; answered by CURSOR."""

    queue: U32


class CloseCursor(Payload):
    """Closes a cursor."""

    cursor: U32


class Begin(Payload):
    """Begins a transaction, with an identifier of the client's or one of the manager's.

    With a token it is the part here of a transaction that another queue manager coordinates.
    """

    identifier: Guid = b""
    token: Annotated[bytes, msgspec.Meta(max_length=4096)] = b""


class Commit(Payload):
    """Commits a transaction; repeated with the same request id it gets the same answer.

    Branches are databases that are prepared, each with the database it is in where that is known:
    the decision is kept until all are confirmed.
    """

    transaction: U32
    request_id: U63 = 0
    branches: Annotated[list[tuple[Name, Name]], msgspec.Meta(max_length=64)] = []


class Abort(Payload):
    """Aborts a transaction."""

    transaction: U32


class Prepare(Payload):
    """Prepares a transaction for a coordinator; answered by VOTED."""

    transaction: U32
    coordinator: Annotated[bytes, msgspec.Meta(max_length=4096)]


class Enlist(Payload):
    """Makes another queue manager a participant of a transaction; answered by ENLISTED.

    Name it by its identifier, or, if the client does not have that, by a peer's name or host.
    """

    transaction: U32
    peer: Guid
    name: Name = ""


class Confirm(Payload):
    """Databases have committed these branches of a transaction that was decided."""

    identifier: Guid
    branches: Annotated[list[Name], msgspec.Meta(max_length=64)]


class Outcomes(Payload):
    """What became of transactions; answered by OUTCOME.

    With a resource also which branches in that database are not confirmed.
    """

    identifiers: Annotated[list[Guid], msgspec.Meta(max_length=10_000)]
    resource: Name = ""


class Lookup(Payload):
    """Reads one message by its lookup id; answered by MESSAGES."""

    queue: U32
    lookup_id: U63
    action: MessageSeekAction = MessageSeekAction.CURRENT
    peek: bool = True
    transaction: U32 = 0


class Move(Payload):
    """Moves a message to a queue of the same family, opened for moving."""

    source: U32
    lookup_id: U63
    target: U32
    transaction: U32 = 0


class Purge(Payload):
    """Empties a queue; answered by COUNTED with what it found."""

    queue: U32


class Count(Payload):
    """How much is in an open queue; answered by COUNTED."""

    queue: U32


class Cancel(Payload):
    """Ends a read that waits: it is answered by an ERROR, this request by DONE."""

    request: U32


class Call(Payload):
    """A call of the management interface, as its HTTP request; answered by CALLED."""

    method: Annotated[str, msgspec.Meta(max_length=16)]
    path: Text
    body: bytes = b""


class Ping(Payload):
    """Asks for nothing but the answer DONE."""


# -- answers


class Welcome(Payload):
    """The answer to HELLO: whom the client speaks to and what it may do."""

    version: U32
    software: str
    name: str
    guid: bytes
    frame_size_max: U32
    requests_max: U32  # outstanding, beside waiting reads
    waits_max: U32
    batch_max: U32  # messages of one frame
    unanswered_max: U32  # requests with an id, of one session name


class Opened(Payload):
    """A queue is open. Packets sent to it carry `destination` as their queue name."""

    queue: U32
    destination: str
    format_name: str
    transactional: bool
    outgoing: bool = False
    elements: U32 = 0  # of a list of queues, which is sent to one message at a time


class CursorOpened(Payload):
    """A cursor is open."""

    cursor: U32


class Begun(Payload):
    """A transaction is open."""

    transaction: U32
    identifier: bytes


class Voted(Payload):
    """`prepared`, `committed` or `aborted`."""

    vote: str


class Enlisted(Payload):
    """The token with which the other queue manager's part is begun there."""

    token: bytes


class Outcome(Payload):
    """`committed`, `undecided` or `unknown` for each, and what a database is to confirm."""

    states: list[str]
    unconfirmed: list[tuple[bytes, str]] = []


class Counted(Payload):
    """Messages of a queue; those that readers hold are counted in."""

    messages: U63
    locked: U63 = 0
    size: U63 = 0  # bytes of their packets


class Called(Payload):
    """The response of the management interface."""

    status: U32
    body: bytes = b""


class Done(Payload):
    """It is done, and durable."""


class Refusal(Payload):
    """ERROR: why a request was refused and nothing done; request 0: why the session ends."""

    code: U32
    cause: str
    remedy: str = ""
