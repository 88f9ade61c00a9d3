"""The types of requests and answers, from which the OpenAPI document is made.

Whatever a type does not name is refused. Numbers, lengths and words are bounded here; what only
the engine can judge it refuses with its own error.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from posthouse.api.groups import GroupJson as GroupJson
from posthouse.api.status import BooksJson as BooksJson
from posthouse.api.status import BooksListJson as BooksListJson
from posthouse.api.status import CountedJson as CountedJson
from posthouse.api.status import DirectoryStatusJson as DirectoryStatusJson
from posthouse.api.status import StatusJson as StatusJson
from posthouse.api.transfer import U32 as U32
from posthouse.api.transfer import U32_MAX as U32_MAX
from posthouse.api.transfer import ConnectionJson as ConnectionJson
from posthouse.api.transfer import IncomingSequenceJson as IncomingSequenceJson
from posthouse.api.transfer import OutgoingJson as OutgoingJson
from posthouse.model.errors import QueueError, hex_code
from posthouse.model.message_json import MessageJson as MessageJson
from posthouse.model.properties import ABORTS_MAX, RETRY_DELAY_MAX_S, RETRY_DELAYS_MAX

LOOKUP_ID_MAX = (1 << 63) - 1
PAGE_MAX = 1000
LOOKUP_IDS_MAX = 1000
RECEIVE_MAX = 100
WAIT_MAX_MS = 60_000
BODY_SIZE_MAX = 4 << 20  # a packet holds no more
BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

Quota = Annotated[int, Meta(ge=0, le=U32_MAX - 1)]
LookupId = Annotated[int, Meta(ge=1, le=LOOKUP_ID_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]
OptionalName = Annotated[str, Meta(max_length=1024)]
FilterText = Annotated[str, Meta(min_length=1, max_length=4096)]
Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
Privacy = Literal["none", "optional", "body"]
RoleWord = Literal["metrics", "look", "read", "operate", "administer"]
DoorWord = Literal["http", "rpc", "ncp"]
Right = Literal[
    "full",
    "receive",
    "peek",
    "purge",
    "send",
    "properties",
    "get-properties",
    "set-properties",
    "journal",
    "delete",
    "get-permissions",
    "change-permissions",
    "take-ownership",
]
Rights = Annotated[list[Right], Meta(min_length=1, max_length=16)]
Bytes = Annotated[bytes, Meta(max_length=BODY_SIZE_MAX, extra_json_schema={"pattern": BASE64})]
Time = Annotated[str, Meta(min_length=10, max_length=32, description="ISO 8601, UTC")]
UserName = Annotated[str, Meta(min_length=1, max_length=64)]
Password = Annotated[str, Meta(min_length=1, max_length=1024)]
TokenId = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
Guid = Annotated[
    str, Meta(pattern="^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$", max_length=36)
]


class Json(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What all of them have in common: no field but those that are named."""


class ErrorBody(Json):
    """A refusal: the result code by name, number and in hexadecimal, why, and what to do."""

    name: str
    code: U32
    cause: str
    remedy: str
    hex: Annotated[str, Meta(description="`code` as MSMQ prints it, `0xC00E0003`")] = ""
    row: int | UnsetType = UNSET  # of rows that are to be messages: which one, from 0 on
    column: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.hex = hex_code(self.code)  # an older queue manager does not give it

    @classmethod
    def of(cls, error: QueueError) -> ErrorBody:
        """Return the words and codes of a refusal."""
        return cls(
            name=error.name,
            code=error.code,
            cause=error.cause,
            remedy=error.remedy,
        )


class ErrorJson(Json):
    """Every answer that is not the one asked for."""

    error: ErrorBody


class Nothing(Json):
    """No parameters, no body."""


class Done(Json):
    """It is done, and durable."""

    done: bool = True


# -- queues


class QueueParams(Json):
    """A queue by path name or format name."""

    queue: Name


class DryRunParams(Json):
    """A queue, and whether to look only."""

    queue: Name
    dry_run: bool = False


class QueuesParams(Json):
    """Which queues to list."""

    outgoing: bool = False
    system: bool = False
    after: Annotated[int, Meta(ge=0, le=U32_MAX)] = 0
    limit: Limit = PAGE_MAX


class QueueJson(Json):
    """A queue: properties, how full it is, how fast it moves. A quota of null is none.

    `guid_name` names it by GUID, as encrypted messages and reports need it; empty where it has no
    such name. The highest lookup id that was ever purged there is `purged_through`.
    """

    number: int
    path: str
    format_name: str
    guid_name: str
    kind: str
    label: str
    type_id: str
    transactional: bool
    journal: bool
    authenticated: bool
    privacy: Privacy
    quota_kib: Quota | None
    journal_quota_kib: Quota | None
    base_priority: int
    multicast: str
    created_time: str
    modified_time: str
    messages: int
    locked: int
    bytes: int
    journal_messages: int
    oldest_age_s: int | None
    accepted_per_s: float
    received_per_s: float
    readers: int
    waiting_readers: int
    state: str
    connections: list[ConnectionJson]
    outgoing: OutgoingJson | None
    incoming: list[IncomingSequenceJson]
    groups: list[GroupJson]
    purged_through: int
    reason: str  # why a public queue is not, or not fully, in the directory
    claimed: int = 0  # messages of a group: only its readers get them
    code_page: str = ""  # of VT_LPSTR bodies; empty: 1252
    max_aborts: int = 0  # after them a message goes to the poison queue; 0: never
    poison_queue: str = ""
    retry_delays_s: list[int] = []  # that a message waits after each abort
    retry_waiting: int = 0  # of the locked ones: those that wait for their next try
    holders: list[HolderJson] = []  # of one queue alone


class HolderJson(Json):
    """A user who holds locked messages, on a lease or as a reader that has the queue open.

    Administrators see all holders, others themselves. Transactions hold the rest.
    """

    user: str
    by: Literal["lease", "reader"]
    messages: int


class QueueListJson(Json):
    """Queues, and the number to go on after; null when these were the last."""

    queues: list[QueueJson]
    next: int | None


Label = Annotated[str, Meta(max_length=124)]
Priority = Annotated[int, Meta(ge=-32768, le=32767)]
Multicast = Annotated[
    str, Meta(max_length=32, description="Multicast address A.B.C.D:PORT; empty for none.")
]
CodePage = Annotated[
    str,
    Meta(max_length=32, description="Code page of VT_LPSTR bodies, such as 1251; empty for 1252."),
]


Aborts = Annotated[int, Meta(ge=0, le=ABORTS_MAX)]
RetryDelay = Annotated[int, Meta(ge=0, le=RETRY_DELAY_MAX_S)]
RetryDelays = Annotated[
    list[RetryDelay],
    Meta(
        max_length=RETRY_DELAYS_MAX,
        description="Pause after each abort, in seconds; the last one applies to all further "
        "aborts.",
    ),
]


class QueueCreateBody(Json):
    """A queue to create."""

    path: Name
    label: Label = ""
    transactional: bool = False
    journal: bool = False
    authenticated: bool = False
    privacy: Privacy = "optional"
    quota_kib: Quota | None = None
    journal_quota_kib: Quota | None = None
    base_priority: Priority = 0
    multicast: Multicast = ""
    type_id: Guid | None = None
    code_page: CodePage = ""
    max_aborts: Aborts = 0
    poison_queue: OptionalName = ""
    retry_delays_s: RetryDelays = []


class QueueSetBody(Json):
    """Properties to change; those that are not named stay."""

    label: Label | UnsetType = UNSET
    journal: bool | UnsetType = UNSET
    authenticated: bool | UnsetType = UNSET
    privacy: Privacy | UnsetType = UNSET
    quota_kib: Quota | UnsetType | None = UNSET
    journal_quota_kib: Quota | UnsetType | None = UNSET
    base_priority: Priority | UnsetType = UNSET
    multicast: Multicast | UnsetType = UNSET
    type_id: Guid | UnsetType = UNSET
    code_page: CodePage | UnsetType = UNSET
    max_aborts: Aborts | UnsetType = UNSET
    poison_queue: OptionalName | UnsetType = UNSET
    retry_delays_s: RetryDelays | UnsetType = UNSET


class CountJson(Json):
    """How many messages it was about; of a dry run, would be."""

    messages: int
    dry_run: bool


# -- messages


class MessagesParams(Json):
    """Which messages of a queue to show; `after` is `next` of the page before.

    With `decode` each has what is in its body (docs/formats.md); a page may end earlier then.
    Where `bodies` is left out, they are shown if the role of the caller shows any.
    """

    queue: Name
    where: FilterText | UnsetType = UNSET
    after: Annotated[str, Meta(pattern="^[0-7]-[0-9]{1,18}$")] | UnsetType = UNSET
    limit: Limit = 100
    bodies: bool | UnsetType = UNSET
    decode: bool = False


class FindParams(Json):
    """Which messages of all queues to show; `decode` as in lists."""

    where: FilterText
    after: Annotated[str, Meta(pattern="^[0-9]{1,9}-[0-8]-[0-9]{1,18}$")] | UnsetType = UNSET
    limit: Limit = 100
    bodies: bool | UnsetType = UNSET
    decode: bool = False


class MessageParams(Json):
    """One message of a queue."""

    queue: Name
    lookup_id: LookupId


class ShowMessageParams(MessageParams):
    """One message of a queue; with `decode`, also what is in its body (docs/formats.md)."""

    decode: bool = False


class MessageIdParams(Json):
    """A message by its identifier, `guid\\ordinal`."""

    id: Annotated[
        str,
        Meta(
            pattern=r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\\[0-9]{1,9}$",
            max_length=46,
        ),
    ]


class SkippedJson(Json):
    """A queue that a search could not look into, and why."""

    queue: str
    reason: str


class MessagePageJson(Json):
    """Messages in queue order, and where the next page begins; null when these were the last.

    A page may be short, or empty, though more follow: `scanned` messages were looked at. A search
    of all queues goes on where one cannot be opened, and names it in `skipped`.
    """

    messages: list[MessageJson]
    next: str | None
    scanned: int
    skipped: list[SkippedJson] = msgspec.field(default_factory=list)


class MessageListJson(Json):
    """Messages that were read; `reason` names who has them where a receive got none."""

    messages: list[MessageJson]
    reason: str = ""


class PlaceJson(Json):
    """Where a message, or a copy, is; `reason`: why one in an outgoing queue has not arrived."""

    queue: str
    lookup_id: int
    state: Literal["waiting", "locked"]
    class_: str = msgspec.field(name="class")
    class_code: int
    meaning: str
    arrived_time: str
    abort_count: int
    move_count: int
    reason: str = ""


class DepartureJson(Json):
    """A message that left a queue a short while ago: how, when, and who received it if known.

    `certain` is false for one of another machine: numbers of other machines may be the same.
    """

    queue: str
    lookup_id: int
    time: str
    how: str
    reader: str = ""
    certain: bool = True


class ReceiveBody(Json):
    """What to receive: the first messages, or one by its lookup id.

    The messages are gone when the answer is sent: an answer that is lost loses them. With `decode`
    each has what is in its body, but for those after the first 8 MiB of it.
    """

    count: Annotated[int, Meta(ge=1, le=RECEIVE_MAX)] = 1
    timeout_ms: Annotated[int, Meta(ge=0, le=WAIT_MAX_MS)] = 0
    lookup_id: LookupId | None = None
    decode: bool = False


class SelectBody(Json):
    """Which messages of a queue: those that a filter matches, or by their lookup ids."""

    where: FilterText | None = None
    lookup_ids: Annotated[list[LookupId], Meta(min_length=1, max_length=LOOKUP_IDS_MAX)] | None = (
        None
    )
    dry_run: bool = False


class SelectToBody(SelectBody, kw_only=True):
    """Which messages are meant, and the queue they go to."""

    to: Name


class MoveMessagesBody(SelectToBody, kw_only=True):
    """Which messages are moved, and where; a `reason` is kept with them until they move again."""

    reason: Annotated[str, Meta(max_length=1000)] = ""


class ResendBody(SelectBody, kw_only=True):
    """Which messages are sent again; without `to`, each to its first destination."""

    to: Name | None = None


class BulkJson(Json):
    """What came of an operation on many messages.

    `gone` were taken by somebody else meanwhile; `refused` stayed, for the reason in `error` and
    perhaps others. An `error` with none refused states why the work ended before all were looked
    at. A dry run does nothing, and states what would be refused.
    """

    matched: int
    done: int
    gone: int
    refused: int
    error: ErrorBody | None
    dry_run: bool


# -- users and tokens


class UserParams(Json):
    """A user by name."""

    name: UserName


class UserJson(Json):
    """A user of the queue manager; doors that are shut have no password yet."""

    name: str
    sid: str
    administrator: bool
    doors: list[str]
    shut: list[str]
    password: bool
    disabled: bool
    created_time: str
    role: RoleWord | None = None  # null: a password reaches to `operate`


class UserListJson(Json):
    """All users."""

    users: list[UserJson]


class UserCreateBody(Json):
    """A user to add; without a password only tokens let them in."""

    name: UserName
    doors: Annotated[list[DoorWord], Meta(max_length=3)] = msgspec.field(
        default_factory=lambda: ["http"]
    )
    administrator: bool = False
    password: Password | None = None
    role: RoleWord | None = None


class UserSetBody(Json):
    """What to change of a user."""

    doors: Annotated[list[DoorWord], Meta(max_length=3)] | UnsetType = UNSET
    administrator: bool | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    role: RoleWord | UnsetType | None = UNSET  # null: the limit goes


class PasswordBody(Json):
    """A new password."""

    password: Password


class TokenParams(Json):
    """Names a token by its identifier, which is not secret."""

    id: TokenId


class TokenJson(Json):
    """A token without its secret."""

    id: str
    user: str
    role: RoleWord
    queues: list[str]
    expires: str | None
    created_time: str


class TokenListJson(Json):
    """All tokens."""

    tokens: list[TokenJson]


class TokenCreateBody(Json):
    """A token to make. `queues` holds `PATTERN=RIGHTS`; empty limits nothing."""

    user: UserName = "administrator"
    role: RoleWord = "read"
    queues: Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=256)] = []
    expires: Time | None = None


class TokenCreatedJson(Json):
    """A new token: the only time that its secret is shown."""

    token: str
    info: TokenJson


class TransactionParams(Json):
    """A transaction by its identifier."""

    id: Guid


class TransactionInfoJson(Json):
    """A transaction that has not ended."""

    id: str
    state: str
    operations: int
    bytes: int
    coordinator: str
    participants: list[str]
    prepared_time: str | None
    decided_time: str | None
    idle_s: int


class TransactionListJson(Json):
    """All transactions that have not ended."""

    transactions: list[TransactionInfoJson]


class BooksParams(Json):
    """Which books to show."""

    after: Annotated[int, Meta(ge=0, le=U32_MAX)] = 0
    limit: Limit = PAGE_MAX


class OnlineJson(Json):
    """Whether the queue manager talks to others."""

    online: bool


class BackupBody(Json):
    """Where the copy goes: a directory of the server's machine that is not there yet."""

    directory: Annotated[str, Meta(min_length=1, max_length=4096)]


class BackupJson(Json):
    """Where the copy is."""

    directory: str
