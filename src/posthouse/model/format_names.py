"""Format names: one small immutable class for each kind ([MS-MQMQ] 2.1.2 to 2.1.7)."""

import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TypeAlias

from posthouse.model.errors import IllegalFormatName
from posthouse.model.guids import format_guid
from posthouse.model.paths import PathName, check_computer
from posthouse.model.queue_name_parts import (
    READ_ONLY_SUFFIXES,
    NameFault,
    PathKind,
    QueuePart,
    Suffix,
)
from posthouse.model.text import excerpt

DOMAIN_NAME_LENGTH_MAX = 255
ELEMENTS_MAX = 256  # Choice: the grammar sets no limit to a list
RESOLVED_MAX = 16 * ELEMENTS_MAX  # names that distribution lists stand for

_IPX_ADDRESS = re.compile(r"[0-9A-Fa-f.:]{1,32}")
# RFC 3986, reg-name. Without escapes, which would be a second spelling of a host, and without what
# ends a host in a URL: another reader of `http://ours@theirs/` would go somewhere else.
_URL_HOST = re.compile(r"[0-9A-Za-z._~!$&'()*-]+")
_DOMAIN = re.compile(r"[\x21-\x2b\x2d-\x7e]*")  # 0x21..0x7E without the comma of lists


class FormatType(IntEnum):
    """QUEUE_FORMAT_TYPE ([MS-MQMQ] 2.2.6)."""

    UNKNOWN = 0
    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    MACHINE = 4
    CONNECTOR = 5
    DL = 6
    MULTICAST = 7
    SUBQUEUE = 8


class Protocol(StrEnum):
    """How the computer of a direct name is reached; IPX and SPX only to be refused."""

    TCP = "TCP"
    OS = "OS"
    HTTP = "HTTP"
    HTTPS = "HTTPS"
    IPX = "IPX"
    SPX = "SPX"


WEB_PROTOCOLS = frozenset({Protocol.HTTP, Protocol.HTTPS})


@dataclass(frozen=True, slots=True)
class DirectName:
    """`DIRECT=` with protocol, address and path ([MS-MQMQ] 2.1.2).

    A port after the address of TCP and OS names is an extension for test set-ups; it selects
    the connection and is part of the name's identity.
    """

    protocol: Protocol
    host: str
    port: int | None
    queue: str
    private: bool = False
    system: bool = False
    subqueue: str = ""
    suffix: Suffix = Suffix.NONE
    spelling: str = field(default="", repr=False, compare=False)
    """The path of a URL as its writer spelled it; elsewhere the letter case of it may count."""
    wire: str = field(init=False, repr=False, compare=False)
    """The text that packets carry: all but `DIRECT=` ([MS-MQMQ] 2.2.18.1.5.2)."""
    key: str = field(init=False, repr=False, compare=False)
    """The identity of the name; neither letter case nor the spelling of an IPv6 matters."""
    path: PathName | None = field(init=False, repr=False, compare=False)
    """Address and queue as a path name; HTTP names have none ([MS-MQDMPR] 3.1.7.1.26)."""

    def __post_init__(self) -> None:
        try:
            _check_host(self.protocol, self.host)
            _check_port(self.protocol, self.port)
            if not self.is_web:
                check_computer(self.address)  # it is the computer of the path
            self._part.check()
        except NameFault as fault:
            raise IllegalFormatName(str(fault)) from None
        # Worked out once: parsed names are cached and asked for these with every message.
        spelled = self.spelling or self._url_path()
        object.__setattr__(self, "wire", self._text(self.address, spelled))
        object.__setattr__(self, "key", self._make_key())
        object.__setattr__(self, "path", self._make_path())

    def __str__(self) -> str:
        return f"DIRECT={self.wire}"

    def _make_key(self) -> str:
        host = self.host
        if ":" in host and self.protocol not in (Protocol.IPX, Protocol.SPX):
            host = IPv6Address(host).compressed
        text = self._text(_join(self.protocol, host, self.port), self._url_path())
        return f"direct={text}".casefold()

    @property
    def type(self) -> FormatType:
        """SUBQUEUE for the name of a subqueue, else DIRECT."""
        return FormatType.SUBQUEUE if self.subqueue else FormatType.DIRECT

    @property
    def address(self) -> str:
        """Host and port as they stand in the name."""
        return _join(self.protocol, self.host, self.port)

    @property
    def kind(self) -> PathKind:
        """The kind of the path after the address."""
        if self.system:
            return PathKind.SYSTEM
        return PathKind.PRIVATE if self.private else PathKind.PUBLIC

    @property
    def is_web(self) -> bool:
        """Whether messages to it travel over HTTP; such names are for sending only."""
        return self.protocol in WEB_PROTOCOLS

    @property
    def machine(self) -> str:
        """The computer it leads to: the address, of a URL the host ([MS-MQDMPR] 3.1.7.1.26)."""
        return self.host if self.is_web else self.address

    def _make_path(self) -> PathName | None:
        if self.is_web:
            return None
        return PathName(self.address, self.queue, self.kind, self.subqueue, self.suffix)

    @property
    def _part(self) -> QueuePart:
        return QueuePart(self.kind, self.queue, self.subqueue, self.suffix)

    def _url_path(self) -> str:
        return f"/msmq/{self._part.text('/')}" if self.is_web else ""

    def _text(self, address: str, url_path: str) -> str:
        if self.is_web:
            return f"{self.protocol}://{address}{url_path}"
        return f"{self.protocol}:{address}\\{self._part.text(chr(92))}"


@dataclass(frozen=True, slots=True)
class PublicName:
    """`PUBLIC=` with the GUID of the queue object ([MS-MQMQ] 2.1.3)."""

    guid: bytes
    suffix: Suffix = Suffix.NONE

    def __post_init__(self) -> None:
        _check_suffix(self.suffix, "public", (Suffix.NONE, Suffix.JOURNAL))

    def __str__(self) -> str:
        return f"PUBLIC={format_guid(self.guid)}{self.suffix.text}"

    @property
    def key(self) -> str:
        """The identity of the name."""
        return str(self).lower()

    @property
    def type(self) -> FormatType:
        """Always PUBLIC."""
        return FormatType.PUBLIC


@dataclass(frozen=True, slots=True)
class PrivateName:
    """`PRIVATE=` with the GUID of the queue manager and a queue number ([MS-MQMQ] 2.1.4)."""

    guid: bytes
    number: int
    suffix: Suffix = Suffix.NONE
    address: str = ""  # ours, for answers alone: the queue manager as it calls from there

    def __post_init__(self) -> None:
        _check_suffix(self.suffix, "private", (Suffix.NONE, Suffix.JOURNAL))
        if not 0 <= self.number <= 0xFFFFFFFF:
            raise IllegalFormatName(f"the queue number {self.number} has more than 32 bits")

    def __str__(self) -> str:
        at = f";ADDRESS={self.address}" if self.address else ""
        return f"PRIVATE={format_guid(self.guid)}\\{self.number:08x}{self.suffix.text}{at}"

    @property
    def key(self) -> str:
        """The identity of the name."""
        return str(self).lower()

    @property
    def type(self) -> FormatType:
        """Always PRIVATE."""
        return FormatType.PRIVATE


@dataclass(frozen=True, slots=True)
class MachineName:
    """`MACHINE=` with the GUID of a queue manager and a system queue of it ([MS-MQMQ] 2.1.6)."""

    guid: bytes
    suffix: Suffix

    def __post_init__(self) -> None:
        _check_suffix(self.suffix, "machine", tuple(sorted(READ_ONLY_SUFFIXES)))

    def __str__(self) -> str:
        return f"MACHINE={format_guid(self.guid)}{self.suffix.text}"

    @property
    def key(self) -> str:
        """The identity of the name."""
        return str(self).lower()

    @property
    def type(self) -> FormatType:
        """Always MACHINE."""
        return FormatType.MACHINE


@dataclass(frozen=True, slots=True)
class ConnectorName:
    """`CONNECTOR=` with the GUID of a foreign site ([MS-MQMQ] 2.1.6)."""

    guid: bytes
    suffix: Suffix = Suffix.NONE

    def __post_init__(self) -> None:
        _check_suffix(self.suffix, "connector", (Suffix.NONE, Suffix.XACTONLY))

    def __str__(self) -> str:
        return f"CONNECTOR={format_guid(self.guid)}{self.suffix.text}"

    @property
    def key(self) -> str:
        """The identity of the name."""
        return str(self).lower()

    @property
    def type(self) -> FormatType:
        """Always CONNECTOR."""
        return FormatType.CONNECTOR


@dataclass(frozen=True, slots=True)
class DistributionListName:
    """`DL=` with the GUID of a distribution list and perhaps its domain ([MS-MQMQ] 2.1.5)."""

    guid: bytes
    domain: str = ""

    def __post_init__(self) -> None:
        if len(self.domain) > DOMAIN_NAME_LENGTH_MAX or not _DOMAIN.fullmatch(self.domain):
            raise IllegalFormatName(
                f"a domain has 1 to {DOMAIN_NAME_LENGTH_MAX} visible ASCII characters and no comma"
            )

    def __str__(self) -> str:
        return f"DL={format_guid(self.guid)}{'@' if self.domain else ''}{self.domain}"

    @property
    def key(self) -> str:
        """The identity of the name."""
        return str(self).lower()

    @property
    def type(self) -> FormatType:
        """Always DL."""
        return FormatType.DL

    @property
    def suffix(self) -> Suffix:
        """A list has no parts."""
        return Suffix.NONE


@dataclass(frozen=True, slots=True)
class MulticastName:
    """`MULTICAST=` with an IPv4 group and a port; for sending only ([MS-MQMQ] 2.1.6)."""

    address: str
    port: int

    def __post_init__(self) -> None:
        try:
            group = IPv4Address(self.address)
        except AddressValueError:
            raise IllegalFormatName(f"{excerpt(self.address)} is not an IPv4 address") from None
        if not group.is_multicast:
            raise IllegalFormatName(
                f"{self.address} is not a multicast address (224 to 239 in front)"
            )
        if not 0 <= self.port <= 0xFFFF:
            raise IllegalFormatName(f"the port {self.port} is not between 0 and 65535")

    def __str__(self) -> str:
        return f"MULTICAST={self.address}:{self.port}"

    @property
    def key(self) -> str:
        """The identity of the name."""
        return str(self).lower()

    @property
    def type(self) -> FormatType:
        """Always MULTICAST."""
        return FormatType.MULTICAST

    @property
    def suffix(self) -> Suffix:
        """A group has no parts."""
        return Suffix.NONE


SingleName: TypeAlias = (
    DirectName
    | PublicName
    | PrivateName
    | MachineName
    | ConnectorName
    | DistributionListName
    | MulticastName
)
"""Any format name but a list."""


@dataclass(frozen=True, slots=True)
class MultipleName:
    """Several names to send to at once, separated by commas ([MS-MQMQ] 2.1.7)."""

    names: tuple[SingleName, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.names) <= RESOLVED_MAX:
            raise IllegalFormatName(f"a list has 2 to {RESOLVED_MAX} names, not {len(self.names)}")
        for name in self.names:
            if isinstance(name, MultipleName):
                raise IllegalFormatName("a list cannot be an element of a list")
            if name.suffix in READ_ONLY_SUFFIXES:
                raise IllegalFormatName(f"{name} is read-only and cannot be an element of a list")

    def __str__(self) -> str:
        return ",".join(map(str, self.names))

    @property
    def key(self) -> str:
        """The identity of the name: that of its elements in their order."""
        return ",".join(name.key for name in self.names)

    @property
    def type(self) -> FormatType:
        """UNKNOWN: a list has no type of its own."""
        return FormatType.UNKNOWN

    @property
    def suffix(self) -> Suffix:
        """A list has no parts."""
        return Suffix.NONE


FormatName: TypeAlias = SingleName | MultipleName
"""Any format name ([MS-MQMQ] 2.1)."""


def _join(protocol: Protocol, host: str, port: int | None) -> str:
    bracketed = ":" in host and (port is not None or protocol in WEB_PROTOCOLS)
    shown = f"[{host}]" if bracketed else host
    return shown if port is None else f"{shown}:{port}"


def _check_host(protocol: Protocol, host: str) -> None:
    check_computer(host)
    if "[" in host or "]" in host:
        raise NameFault(f"the host {excerpt(host)} must not contain brackets")
    if protocol in (Protocol.IPX, Protocol.SPX):
        if not _IPX_ADDRESS.fullmatch(host):
            raise NameFault(f"{excerpt(host)} is not an address of {protocol}")
    elif ":" in host or protocol is Protocol.TCP:
        _check_ip(protocol, host)
    elif protocol in WEB_PROTOCOLS and not _URL_HOST.fullmatch(host):
        raise NameFault(f"{excerpt(host)} cannot be the host of a URL")


def _check_ip(protocol: Protocol, host: str) -> None:
    try:
        IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        hint = "; computer names go after DIRECT=OS:" if protocol is Protocol.TCP else ""
        raise NameFault(f"{excerpt(host)} is not an IP address{hint}") from None


def _check_port(protocol: Protocol, port: int | None) -> None:
    if port is None:
        return
    if protocol in (Protocol.IPX, Protocol.SPX):
        raise NameFault(f"an address of {protocol} has no port")
    if not 1 <= port <= 0xFFFF:
        raise NameFault(f"the port {port} is not between 1 and 65535")


def _check_suffix(suffix: Suffix, what: str, allowed: tuple[Suffix, ...]) -> None:
    if suffix not in allowed:
        words = ", ".join(choice.text or "no suffix" for choice in allowed)
        raise IllegalFormatName(f"a {what} name takes {words}, not {suffix.name.lower()}")
