"""The enumerations of queues and queue managers ([MS-MQDMPR] 3.1.1.1, 3.1.1.3, 3.1.1.17).

Numbers are those of the API and of [MS-MQMQ] where they have any.
"""

from enum import Enum, IntEnum, StrEnum


class OperatingSystemType(IntEnum):
    """What a queue manager runs on ([MS-MQDMPR] 3.1.1.1; numbers of PROPID_QM_OS)."""

    OTHER = 0
    FOREIGN = 0x100
    WIN95 = 0x200
    WIN_CLIENT = 0x300
    WIN_SERVER = 0x400
    WIN_ENT = 0x500


class DirectoryServerType(Enum):
    """Which directory service a queue manager offers; only read while it offers one."""

    STANDALONE = "standalone"
    BACKUP_SITE_CONTROLLER = "backup site controller"
    PRIMARY_SITE_CONTROLLER = "primary site controller"
    PRIMARY_ENTERPRISE_CONTROLLER = "primary enterprise controller"


class QueueManagerState(Enum):
    """The life of a queue manager; it begins stopped and serves only when ready."""

    STOPPED = "stopped"
    INITIALIZING = "initializing"
    READY = "ready"
    STOPPING = "stopping"


class QueueType(Enum):
    """Who owns a queue and whether the directory shows it ([MS-MQDMPR] 3.1.1.2)."""

    PRIVATE = "private"
    PUBLIC = "public"
    SYSTEM = "system"
    CONNECTOR = "connector"


class QueueScope(IntEnum):
    """Where a queue can be found; the document fixes it to the enterprise."""

    SITE = 0
    ENTERPRISE = 1


class QueuePrivacyLevel(IntEnum):
    """Which messages a queue takes: clear ones only, any, or encrypted ones only."""

    NONE = 0
    OPTIONAL = 1
    BODY = 2


class OutgoingQueueState(StrEnum):
    """What an outgoing queue is doing; the texts are those of management ([MS-MQMQ] 2.3.12)."""

    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"
    DISCONNECTING = "DISCONNECTING"
    INACTIVE = "INACTIVE"
    LOCKED = "LOCKED"
    NEED_VALIDATION = "NEED VALIDATION"
    WAITING = "WAITING"
    ON_HOLD = "ONHOLD"


LOCAL_CONNECTION = "LOCAL CONNECTION"
"""What management shows as the state of a queue that is not an outgoing one."""


class ConnectionStatus(IntEnum):
    """The result of an attempt to connect ([MS-MQDMPR] 3.1.1.3, [MS-MQMQ] 2.3.12)."""

    IN_PROCESS = 0
    ESTABLISH_PACKET_RECEIVED = 1
    ESTABLISHED = 2
    UNKNOWN_FAILURE = 0x80000000
    PING_FAILURE = 0x80000001
    SOCKET_CREATE_FAILURE = 0x80000002
    SOCKET_BIND_FAILURE = 0x80000003
    SOCKET_CONNECT_FAILURE = 0x80000004
    TCP_NOT_ENABLED = 0x80000005
    SOCKET_SEND_FAILURE = 0x80000006
    CONNECTION_NOT_READY = 0x80000007
    DNS_FAILURE = 0x80000008
    CERTIFICATE_VALIDATION_FAILURE = 0x80000009
    CONNECTION_LIMIT_REACHED = 0x8000000A
    CONNECTION_REFUSED = 0x8000000B
    ROUTING_DATA_NOT_AVAILABLE = 0x8000000C
    LOW_RESOURCE = 0x8000000D

    @property
    def is_failure(self) -> bool:
        """Whether the attempt ended without a session."""
        return self.value >= 0x80000000


class DirectoryOperationResult(Enum):
    """How a directory operation ended ([MS-MQDMPR] 3.1.1.17)."""

    SUCCESS = "success"
    GENERIC_ERROR = "generic error"
    DIRECTORY_NOT_CONNECTED = "directory not connected"
    OBJECT_NOT_FOUND = "object not found"
    ATTRIBUTE_NOT_FOUND = "attribute not found"
    END_OF_DATA = "end of data"
    OBJECT_ALREADY_EXISTS = "object already exists"


class MessageSeekAction(Enum):
    """Which message a lookup finds, relative to the given one ([MS-MQDMPR] 3.1.1.17)."""

    FIRST = "first"
    PREVIOUS = "previous"
    CURRENT = "current"
    NEXT = "next"
    LAST = "last"


class QueueAccessType(IntEnum):
    """What a queue is opened for ([MS-MQDMPR] 3.1.1.17); the numbers are those of the API."""

    RECEIVE = 0x01
    SEND = 0x02
    MOVE = 0x04
    PEEK = 0x20
    RECEIVE_ADMIN = 0x81
    PEEK_ADMIN = 0xA0


class QueueShareMode(IntEnum):
    """Whether others may read a queue while it is open ([MS-MQDMPR] 3.1.1.17)."""

    DENY_NONE = 0
    DENY_RECEIVE = 1
