"""UserMessage packets read part by part, [MS-MQMQ] 2.2.20."""

from posthouse.model.guids import NULL_GUID
from posthouse.model.message import NULL_MESSAGE_ID, MessageId
from posthouse.model.names import MulticastName, SingleName
from posthouse.wire.layout import Reader, decode_text, lazy
from posthouse.wire.packet.headers import (
    BASE_HEADER,
    MESSAGE_PROPERTIES_HEADER,
    OVER_HTTP,
    QUEUE_NAME_FLAGS,
    SESSION_HEADER,
    TRANSACTION_HEADER,
    USER_HEADER,
    BaseFlags,
    BaseHeader,
    MessagePropertiesHeader,
    SecurityFlags,
    SessionHeader,
    TransactionHeader,
    UserFlags,
    UserHeader,
)
from posthouse.wire.packet.optional_headers import (
    MultiQueue,
    Security,
    Soap,
    read_debug,
    read_multi_queue,
    read_security,
    read_soap,
)
from posthouse.wire.packet.packet_fields import NAMES_AT, PacketSummary, summarize
from posthouse.wire.packet.patch import drop_session_header, patch, stamp
from posthouse.wire.packet.queue_names import QueueNames, read_queue_names
from posthouse.wire.packet.trailing_headers import Tail, locate_tail
from posthouse.wire.srmp.stored_messages import stored_parts

__all__ = [
    "Packet",
    "PacketSummary",
    "drop_session_header",
    "is_encrypted",
    "patch",
    "stamp",
    "summarize",
]


ENCRYPTED = int(SecurityFlags.of(encrypted=1))


def is_encrypted(packet: bytes | memoryview, seen: PacketSummary | None = None) -> bool:
    """The flag EB of the SecurityHeader, [MS-MQMQ] 2.2.20.6; false without that header."""
    at = (summarize(packet) if seen is None else seen).security_at
    return bool(at and packet[at] & ENCRYPTED)


class Packet:
    """A view of a UserMessage packet whose headers are read when they are first asked for.

    Making one checks the packet up to the end of its body, as `summarize` does; any property may
    raise `RemoteProtocolError` for the part it reads. Absent headers are None, absent values empty.
    """

    def __init__(self, data: bytes | memoryview, seen: PacketSummary | None = None) -> None:
        self.data = bytes(data)
        self.summary = summarize(self.data) if seen is None else seen

    def check(self) -> None:
        """Reads every part, so that nothing of this packet can fail later."""
        for part in ("names", "security", "tracing_queue", "soap", "multi_queue", "session"):
            getattr(self, part)
        if self.summary.user_flags & OVER_HTTP:
            stored_parts(self.data, self.summary)

    @lazy
    def base(self) -> BaseHeader:
        """[MS-MQMQ] 2.2.19.1."""
        return BASE_HEADER.unpack(self.data)

    @property
    def base_flags(self) -> BaseFlags:
        """The flags of the BaseHeader."""
        return BaseFlags(self.summary.base_flags)

    @property
    def priority(self) -> int:
        """0 to 7; 0 for every transactional message, whatever its bits are."""
        return self.summary.priority

    @lazy
    def user(self) -> UserHeader:
        """[MS-MQMQ] 2.2.19.2: the fixed part."""
        return USER_HEADER.unpack(self.data, BASE_HEADER.size)

    @property
    def user_flags(self) -> UserFlags:
        """The flags of the UserHeader."""
        return UserFlags(self.summary.user_flags)

    @property
    def identifier(self) -> MessageId:
        """MessageIdentifier, [MS-MQMQ] 2.2.18.1.3: source GUID and ordinal."""
        return MessageId(self.summary.source_guid, self.summary.ordinal)

    @lazy
    def names(self) -> QueueNames:
        """The three queue names and the connector type, [MS-MQMQ] 2.2.19.2."""
        seen = self.summary
        end = seen.transaction_at or seen.security_at or seen.properties_at or seen.body_at
        flags = UserFlags(seen.user_flags & QUEUE_NAME_FLAGS)
        return read_queue_names(self.data[NAMES_AT:end], flags, seen.source_guid, seen.address_guid)

    @property
    def destination_queue(self) -> SingleName | None:
        """The queue this packet goes to."""
        return self.names.destination

    @property
    def destination_text(self) -> str:
        """The destination as a format name; a multicast address is in the lists only."""
        text = self.names.texts[0]
        lists = None if text else self.multi_queue
        first = lists.destination[0] if lists and lists.destination else None
        return str(first) if isinstance(first, MulticastName) else text

    @property
    def administration_queue(self) -> SingleName | None:
        """The queue that gets acknowledgments."""
        return self.names.administration

    @property
    def response_queue(self) -> SingleName | None:
        """The queue that gets answers; the administration queue, by a flag of the packet."""
        return self.names.response

    @property
    def connector_type(self) -> bytes:
        """The GUID a connector application has set, else the null GUID."""
        return self.names.connector_type

    @lazy
    def transaction(self) -> TransactionHeader | None:
        """[MS-MQMQ] 2.2.20.5."""
        at = self.summary.transaction_at
        return TRANSACTION_HEADER.unpack(self.data, at) if at else None

    @property
    def connector_guid(self) -> bytes:
        """ConnectorQMGuid, [MS-MQMQ] 2.2.20.5; the null GUID if absent."""
        if self.transaction is None or not self.transaction.flags.connector_guid:
            return NULL_GUID
        start = self.summary.transaction_at + TRANSACTION_HEADER.size
        return self.data[start : start + 16]

    @lazy
    def security(self) -> Security | None:
        """[MS-MQMQ] 2.2.20.6, unverified: its flags AU and AS mean nothing (decision 3)."""
        at = self.summary.security_at
        return read_security(self._reader(at)) if at else None

    @property
    def encrypted(self) -> bool:
        """The flag EB: the sender wants the body encrypted, and has done it if a key came along."""
        return is_encrypted(self.data, self.summary)

    @lazy
    def properties(self) -> MessagePropertiesHeader | None:
        """[MS-MQMQ] 2.2.19.3: the fixed part."""
        at = self.summary.properties_at
        return MESSAGE_PROPERTIES_HEADER.unpack(self.data, at) if at else None

    @property
    def message_class(self) -> int:
        """[MS-MQMQ] 2.2.18.1.6; values without a name are carried."""
        return self.summary.message_class

    @property
    def correlation_identifier(self) -> MessageId:
        """CorrelationID; of an acknowledgment, the message it is about."""
        return (
            MessageId.unpack(self.properties.correlation_id) if self.properties else NULL_MESSAGE_ID
        )

    @property
    def body_type(self) -> int:
        """BodyType; any value is carried."""
        return self.properties.body_type if self.properties else 0

    @property
    def application_tag(self) -> int:
        """ApplicationTag, which applications call AppSpecific."""
        return self.properties.application_tag if self.properties else 0

    @property
    def privacy_level(self) -> int:
        """PrivacyLevel; any value is carried."""
        return self.properties.privacy_level if self.properties else 0

    @property
    def label(self) -> str:
        """The label without its NUL."""
        start = self.summary.label_at
        return decode_text(self.data[start : start + self.summary.label_size])

    @property
    def extension(self) -> bytes:
        """ExtensionData."""
        start = self.summary.extension_at
        return self.data[start : start + self.summary.extension_size]

    @property
    def body(self) -> bytes:
        """MessageBody, as it travels: ciphertext if the message is encrypted."""
        start = self.summary.body_at
        return self.data[start : start + self.summary.body_size]

    @lazy
    def tail(self) -> Tail:
        """Where the headers after the body are."""
        seen = self.summary
        body_end = seen.body_at + seen.body_size
        return locate_tail(self.data, body_end, seen.packet_size, seen.base_flags, seen.user_flags)

    @lazy
    def tracing_queue(self) -> bytes:
        """The report queue of the DebugHeader, [MS-MQMQ] 2.2.20.8, else the null GUID."""
        at = self.tail.debug_at
        return read_debug(self._reader(at)) if at else NULL_GUID

    @lazy
    def soap(self) -> Soap | None:
        """[MS-MQMQ] 2.2.20.7."""
        at = self.tail.soap_at
        return read_soap(self._reader(at)) if at else None

    @lazy
    def multi_queue(self) -> MultiQueue | None:
        """[MS-MQMQ] 2.2.20.1."""
        at = self.tail.multi_queue_at
        return read_multi_queue(self._reader(at)) if at else None

    @lazy
    def session(self) -> SessionHeader | None:
        """A piggy-backed SessionHeader, [MS-MQMQ] 2.2.20.4, inside PacketSize or after it."""
        at = self.tail.session_at
        return SESSION_HEADER.unpack(self.data, at) if at else None

    @property
    def session_follows(self) -> bool:
        """Whether the next 16 bytes of the stream are this packet's SessionHeader (decision 27)."""
        return bool(self.base_flags.session_header and not self.tail.session_at)

    def _reader(self, at: int) -> Reader:
        return Reader(self.data, at, self.summary.packet_size)
