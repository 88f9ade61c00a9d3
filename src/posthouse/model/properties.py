"""The properties of queues and queue managers, their defaults and limits ([MS-MQDMPR] 3.1.1.2)."""

from dataclasses import dataclass
from typing import Final

from posthouse.model.code_pages import checked_code_page
from posthouse.model.enumerations import (
    LOCAL_CONNECTION,
    ConnectionStatus,
    DirectoryOperationResult,
    DirectoryServerType,
    MessageSeekAction,
    OperatingSystemType,
    OutgoingQueueState,
    QueueAccessType,
    QueueManagerState,
    QueuePrivacyLevel,
    QueueScope,
    QueueShareMode,
    QueueType,
)
from posthouse.model.errors import (
    IllegalFormatName,
    IllegalPropertyValue,
    LabelTooLong,
    PropertiesConflict,
    QueueError,
)
from posthouse.model.format_names import MulticastName
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import PathName, parse_format_name, parse_name
from posthouse.model.property_ids import (
    MACHINE_MANAGEMENT_PROPERTIES,
    MACHINE_PROPERTIES,
    MESSAGE_PROPERTIES,
    QUEUE_MANAGEMENT_PROPERTIES,
    QUEUE_PROPERTIES,
    MachineService,
    Property,
    Vt,
)
from posthouse.model.text import excerpt, has_lone_surrogate, utf16_length

__all__ = [
    "ABORTS_MAX",
    "BASE_PRIORITY_MAX",
    "BASE_PRIORITY_MIN",
    "DEFAULT_POISON_QUEUE",
    "INITIALIZATION_RETRY_TIMER_DURATION_S",
    "LOCAL_CONNECTION",
    "MACHINE_JOURNAL_QUOTA_DEFAULT_KIB",
    "MACHINE_MANAGEMENT_PROPERTIES",
    "MACHINE_PROPERTIES",
    "MACHINE_QUOTA_DEFAULT_KIB",
    "MESSAGE_PROPERTIES",
    "QUEUE_LABEL_LENGTH_MAX",
    "QUEUE_MANAGEMENT_PROPERTIES",
    "QUEUE_PROPERTIES",
    "RETRY_DELAYS_MAX",
    "RETRY_DELAY_MAX_S",
    "UNLIMITED",
    "ConnectionStatus",
    "DirectoryOperationResult",
    "DirectoryServerType",
    "MachineService",
    "MessageSeekAction",
    "OperatingSystemType",
    "OutgoingQueueState",
    "Property",
    "QueueAccessType",
    "QueueManagerState",
    "QueuePrivacyLevel",
    "QueueProperties",
    "QueueScope",
    "QueueShareMode",
    "QueueType",
    "Vt",
    "parse_multicast_address",
]

UNLIMITED: Final = 0xFFFFFFFF
ABORTS_MAX: Final = 0xFFFF
RETRY_DELAYS_MAX: Final = 16
RETRY_DELAY_MAX_S: Final = 604_800
DEFAULT_POISON_QUEUE: Final = ";poison"
QUEUE_LABEL_LENGTH_MAX: Final = 124
BASE_PRIORITY_MIN: Final = -32768
BASE_PRIORITY_MAX: Final = 32767
MACHINE_QUOTA_DEFAULT_KIB: Final = 0x00100000  # kilobytes, though the document prints bytes
MACHINE_JOURNAL_QUOTA_DEFAULT_KIB: Final = UNLIMITED
INITIALIZATION_RETRY_TIMER_DURATION_S: Final = 120


@dataclass(slots=True)
class QueueProperties:
    """What a user sets of a queue, with the defaults of Set Queue Defaults (3.1.7.1.33).

    `pathname` is fixed at creation; the security descriptor is the security layer's.
    """

    label: str = ""
    type_guid: bytes = NULL_GUID
    pathname: str = ""
    journaling: bool = False
    quota_kib: int = UNLIMITED
    journal_quota_kib: int = UNLIMITED
    authentication: bool = False
    privacy_level: int = QueuePrivacyLevel.OPTIONAL
    transactional: bool = False
    multicast_address: str | None = None
    base_priority: int = 0
    code_page: str = ""
    """Of senders of VT_LPSTR bodies; empty: 1252. MSMQ has no such property."""
    max_aborts: int = 0
    """Aborts after which a message goes to the poison queue; 0: it is tried for ever."""
    poison_queue: str = ""
    """A subqueue, such as `;poison`, or a queue of this computer; empty: `;poison`."""
    retry_delays: tuple[int, ...] = ()
    """Seconds that a message waits after each abort; the last goes for all that follow."""

    def validate(self) -> None:
        """Raise the proper `QueueError` for the first property outside its limits."""
        if self.pathname:
            PathName.parse(self.pathname)
        _check_label(self.label)
        if len(self.type_guid) != 16:
            raise IllegalPropertyValue(f"the type GUID has {len(self.type_guid)} bytes, not 16")
        _check_number("the quota", self.quota_kib, 0, UNLIMITED)
        _check_number("the journal quota", self.journal_quota_kib, 0, UNLIMITED)
        _check_number("the base priority", self.base_priority, BASE_PRIORITY_MIN, BASE_PRIORITY_MAX)
        if self.privacy_level not in frozenset(QueuePrivacyLevel):
            raise IllegalPropertyValue(f"a queue has no privacy level {self.privacy_level}")
        self.code_page = checked_code_page(self.code_page)
        if self.multicast_address is not None:
            self._check_multicast(self.multicast_address)
        self._check_poison_policy()

    def _check_poison_policy(self) -> None:
        _check_number("the maximum of aborts", self.max_aborts, 0, ABORTS_MAX)
        if len(self.retry_delays) > RETRY_DELAYS_MAX:
            raise IllegalPropertyValue(f"a queue has at most {RETRY_DELAYS_MAX} retry delays")
        for delay in self.retry_delays:
            _check_number("a retry delay", delay, 0, RETRY_DELAY_MAX_S)
        if (self.max_aborts or self.retry_delays) and not self.transactional:
            raise PropertiesConflict(
                "a queue that is not transactional has no aborts, and so no poison policy",
                "Create a transactional queue.",
            )
        _check_poison_queue(self.poison_queue)

    def _check_multicast(self, address: str) -> None:
        name = parse_multicast_address(address)
        self.multicast_address = f"{name.address}:{name.port}"  # in one spelling
        if self.transactional:  # Choice: as the API has it; multicast has no transactions
            raise PropertiesConflict("a transactional queue cannot have a multicast address")


def parse_multicast_address(text: str) -> MulticastName:
    """Read `A.B.C.D:PORT`, the multicast address of a queue ([MS-MQMQ] 2.3.1)."""
    try:
        name = parse_format_name(f"MULTICAST={text}")
    except IllegalFormatName as error:
        raise IllegalPropertyValue(f"the multicast address: {error.cause}") from None
    if not isinstance(name, MulticastName):
        raise IllegalPropertyValue(f"{excerpt(text)} is more than one multicast address")
    return name


def _check_poison_queue(name: str) -> None:
    """A subqueue by its name after a semicolon, or a path name or format name of a queue."""
    if not name:
        return
    try:
        parse_name(f".\\private$\\q{name}" if name.startswith(";") else name)
    except QueueError as error:
        raise IllegalPropertyValue(f"the poison queue: {error.cause}") from None


def _check_label(label: str) -> None:
    length = utf16_length(label)
    if length > QUEUE_LABEL_LENGTH_MAX:
        raise LabelTooLong(
            f"the label has {length} characters, a queue's at most {QUEUE_LABEL_LENGTH_MAX}"
        )
    if "\0" in label or has_lone_surrogate(label):
        raise IllegalPropertyValue("the label contains a NUL or half a surrogate pair")


def _check_number(what: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise IllegalPropertyValue(f"{what} is {value}; allowed is {lowest} to {highest}")
