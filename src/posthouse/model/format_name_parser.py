"""Format names read from text ([MS-MQMQ] 2.1.2 to 2.1.7).

Any text gives a name or `IllegalFormatName`. Names are immutable, so single ones are cached:
a busy sender writes the same few destinations into every packet.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from posthouse.model.errors import IllegalFormatName
from posthouse.model.format_names import (
    ELEMENTS_MAX,
    WEB_PROTOCOLS,
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    Protocol,
    PublicName,
    SingleName,
)
from posthouse.model.guids import GUID_PATTERN, parse_guid
from posthouse.model.paths import PathName
from posthouse.model.queue_name_parts import (
    SUFFIX_OF_WORD,
    NameFault,
    PathKind,
    Suffix,
    split_queue_part,
)
from posthouse.model.text import excerpt

ELEMENT_LENGTH_MAX = 512  # more than the parts of any single name add up to
FORMAT_NAME_LENGTH_MAX = ELEMENTS_MAX * (ELEMENT_LENGTH_MAX + 1)
CACHED_NAMES_MAX = 4096

_GUID_AND_SUFFIX = re.compile(rf"({GUID_PATTERN})(?:;([a-zA-Z]+))?")
_PRIVATE = re.compile(rf"({GUID_PATTERN})\\([0-9a-fA-F]{{1,8}})(?:;([a-zA-Z]+))?")
_ANSWERS = re.compile(rf"({GUID_PATTERN})\\(00000004);ADDRESS=([0-9a-fA-F.:]{{2,45}})")
_LIST = re.compile(rf"({GUID_PATTERN})(?:@(.+))?", re.DOTALL)
_MULTICAST = re.compile(r"([0-9.]{7,15}):([0-9]{1,5})")
_URL = re.compile(r"[\\/]{2}([^\\/]*)([\\/]msmq[\\/])(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?")
_WITH_PORT = re.compile(r"([^:]*):([0-9]{1,5})")


def parse_format_name(text: str) -> FormatName:
    """Read a format name: a single one, or a list of them separated by commas."""
    if len(text) > FORMAT_NAME_LENGTH_MAX:
        raise IllegalFormatName(f"a format name has at most {FORMAT_NAME_LENGTH_MAX} characters")
    elements = text.split(",", ELEMENTS_MAX)
    if len(elements) == 1:
        return _parse_element(text)
    if len(elements) > ELEMENTS_MAX:
        raise IllegalFormatName(
            f"more than {ELEMENTS_MAX} names in one", "Make them members of a distribution list."
        )
    return MultipleName(tuple(_parse_listed(i, element) for i, element in enumerate(elements, 1)))


def direct_from_wire(text: str) -> DirectName:
    """Read a direct name as packets carry it, without `DIRECT=` ([MS-MQMQ] 2.2.18.1.5.2)."""
    _check_length(text)
    return _parse_direct(text)


def direct_name_of(path: PathName, protocol: Protocol = Protocol.OS) -> DirectName:
    """The direct name of a queue known by its path."""
    return _parse_direct(f"{protocol}:{path}")


def far_name_of(path: PathName) -> DirectName:
    """The direct name that the machine itself takes for its own: an address is TCP's."""
    try:
        return direct_name_of(path, Protocol.TCP)
    except IllegalFormatName:
        return direct_name_of(path)


def _parse_listed(number: int, text: str) -> SingleName:
    try:
        return _parse_element(text)
    except IllegalFormatName as error:
        raise IllegalFormatName(f"element {number} of the list: {error.cause}") from None


def _parse_element(text: str) -> SingleName:
    _check_length(text)
    return _parse_single(text)


def _check_length(text: str) -> None:
    if len(text) > ELEMENT_LENGTH_MAX:
        raise IllegalFormatName(f"a single name has at most {ELEMENT_LENGTH_MAX} characters")


@lru_cache(maxsize=CACHED_NAMES_MAX)
def _parse_single(text: str) -> SingleName:
    keyword, equals, rest = text.partition("=")
    parse = _PARSERS.get(keyword.upper()) if keyword.isascii() else None
    if not equals or parse is None:
        kinds = ", ".join(f"{word}=" for word in _PARSERS)
        raise IllegalFormatName(f"{excerpt(text)} does not begin with one of {kinds}")
    return parse(rest)


@lru_cache(maxsize=CACHED_NAMES_MAX)
def _parse_direct(text: str) -> DirectName:
    word, _, rest = text.partition(":")
    try:
        protocol = Protocol(word.upper() if word.isascii() else word)
    except ValueError:
        known = ", ".join(Protocol)
        raise IllegalFormatName(f"{excerpt(word)} is not a protocol; known are {known}") from None
    try:
        if protocol in WEB_PROTOCOLS:
            return _parse_url(protocol, rest)
        return _parse_address_and_path(protocol, rest)
    except NameFault as fault:
        raise IllegalFormatName(f"{excerpt(text)}: {fault}") from None


def _parse_address_and_path(protocol: Protocol, text: str) -> DirectName:
    address, backslash, path = text.partition("\\")
    if not backslash:
        raise NameFault("no backslash stands between address and queue")
    if protocol in (Protocol.IPX, Protocol.SPX):
        return _build(protocol, address, None, path, "\\")
    host, port = _split_address(address)
    return _build(protocol, host, port, path, "\\")


def _parse_url(protocol: Protocol, text: str) -> DirectName:
    match = _URL.fullmatch(text)
    if match is None:
        raise NameFault(f"write {protocol}://host/msmq/queue or {protocol}://host:port/msmq/queue")
    if match[1].count(":") > 1 and not match[1].startswith("["):
        raise NameFault("an IPv6 address in a URL stands in brackets")
    host, port = _split_address(match[1])
    spelling = (match[2] + match[3]).replace("\\", "/")
    return _build(protocol, host, port, match[3], "\\/", spelling)


def _build(
    protocol: Protocol, host: str, port: int | None, path: str, separators: str, spelling: str = ""
) -> DirectName:
    part = split_queue_part(path, separators)
    kind = part.kind is PathKind.PRIVATE, part.kind is PathKind.SYSTEM
    return DirectName(protocol, host, port, part.queue, *kind, part.subqueue, part.suffix, spelling)


def _split_address(address: str) -> tuple[str, int | None]:
    """Host and port; an IPv6 address needs brackets only in front of a port."""
    if address.startswith("["):
        match = _BRACKETED.fullmatch(address)
        if match is None or ":" not in match[1]:
            raise NameFault(f"{excerpt(address)} is not [IPv6] or [IPv6]:port")
    elif address.count(":") == 1:
        match = _WITH_PORT.fullmatch(address)
        if match is None:
            raise NameFault(f"{excerpt(address)} has something else than a port after the colon")
    else:
        return address, None
    return match[1], None if match[2] is None else int(match[2])


def _parse_public(text: str) -> PublicName:
    return PublicName(*_guid_and_suffix(text))


def _parse_machine(text: str) -> MachineName:
    return MachineName(*_guid_and_suffix(text))


def _parse_connector(text: str) -> ConnectorName:
    return ConnectorName(*_guid_and_suffix(text))


def _parse_private(text: str) -> PrivateName:
    if (answers := _ANSWERS.fullmatch(text)) is not None:
        return PrivateName(parse_guid(answers[1]), int(answers[2], 16), address=answers[3])
    match = _PRIVATE.fullmatch(text)
    if match is None:
        raise IllegalFormatName(f"{excerpt(text)} is not a GUID, a backslash and 1 to 8 hex digits")
    return PrivateName(parse_guid(match[1]), int(match[2], 16), _suffix(match[3]))


def _parse_distribution_list(text: str) -> DistributionListName:
    match = _LIST.fullmatch(text)
    if match is None:
        raise IllegalFormatName(f"{excerpt(text)} is not a GUID, or a GUID, @ and a domain")
    return DistributionListName(parse_guid(match[1]), match[2] or "")


def _parse_multicast(text: str) -> MulticastName:
    match = _MULTICAST.fullmatch(text)
    if match is None:
        raise IllegalFormatName(f"{excerpt(text)} is not an IPv4 address, a colon and a port")
    return MulticastName(match[1], int(match[2]))


def _guid_and_suffix(text: str) -> tuple[bytes, Suffix]:
    match = _GUID_AND_SUFFIX.fullmatch(text)
    if match is None:
        raise IllegalFormatName(f"{excerpt(text)} is not a GUID of the form 8-4-4-4-12 hex digits")
    return parse_guid(match[1]), _suffix(match[2])


def _suffix(word: str | None) -> Suffix:
    if word is None:
        return Suffix.NONE
    suffix = SUFFIX_OF_WORD.get(word.lower())
    if suffix is None:
        raise IllegalFormatName(
            f"{excerpt(word)} is not a suffix; only direct names have subqueues"
        )
    return suffix


_PARSERS: dict[str, Callable[[str], SingleName]] = {
    "DIRECT": _parse_direct,
    "PUBLIC": _parse_public,
    "PRIVATE": _parse_private,
    "MACHINE": _parse_machine,
    "CONNECTOR": _parse_connector,
    "DL": _parse_distribution_list,
    "MULTICAST": _parse_multicast,
}
