"""All names of queues in one place: path names, format names, next hops ([MS-MQMQ] 2.1).

`parse_name` and `parse_path` read what people and programs give; every door hands names to them as
they come. Names of packets and of the log are read by `parse_format_name` and `PathName.parse`.
"""

import re
from typing import Final, TypeAlias

from posthouse.model.errors import IllegalFormatName, IllegalQueuePathname
from posthouse.model.format_name_parser import (
    ELEMENT_LENGTH_MAX,
    FORMAT_NAME_LENGTH_MAX,
    direct_from_wire,
    direct_name_of,
    far_name_of,
    parse_format_name,
)
from posthouse.model.format_names import (
    ELEMENTS_MAX,
    RESOLVED_MAX,
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    FormatType,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    Protocol,
    PublicName,
    SingleName,
)
from posthouse.model.next_hops import NextHop, NextHopKind
from posthouse.model.paths import COMPUTER_NAME_LENGTH_MAX, PATH_NAME_LENGTH_MAX, PathName
from posthouse.model.queue_name_parts import (
    QUEUE_NAME_LENGTH_MAX,
    READ_ONLY_SUFFIXES,
    SUBQUEUE_NAME_LENGTH_MAX,
    PathKind,
    Suffix,
)
from posthouse.model.text import excerpt

__all__ = [
    "COMPUTER_NAME_LENGTH_MAX",
    "ELEMENTS_MAX",
    "ELEMENT_LENGTH_MAX",
    "FORMAT_NAME_LENGTH_MAX",
    "PATH_NAME_LENGTH_MAX",
    "QUEUE_NAME_LENGTH_MAX",
    "READ_ONLY_SUFFIXES",
    "RESOLVED_MAX",
    "SUBQUEUE_NAME_LENGTH_MAX",
    "ConnectorName",
    "DirectName",
    "DistributionListName",
    "FormatName",
    "FormatType",
    "MachineName",
    "MulticastName",
    "MultipleName",
    "Name",
    "NextHop",
    "NextHopKind",
    "PathKind",
    "PathName",
    "PrivateName",
    "Protocol",
    "PublicName",
    "SingleName",
    "Suffix",
    "direct_from_wire",
    "direct_name_of",
    "far_name_of",
    "is_bare",
    "parse_format_name",
    "parse_name",
    "parse_path",
]

Name: TypeAlias = PathName | FormatName
"""Whatever may stand for a queue in a command or call."""

_KEYWORD: Final = re.compile(r"[^\\/]*=")
_BARE: Final = re.compile(r"[^\\/=:*$.][^\\/=:*$]*")
_PATTERN: Final = re.compile(r"[^\\/=:]*[*][^\\/=:]*")
_SEPARATOR: Final = re.compile(r"[\\/]")
_PREFIX: Final = re.compile(r"^FormatName:", re.IGNORECASE)
_WITH_SLASHES: Final = re.compile(r"^(DIRECT=(?:OS|TCP):[^\\/]+)/(private\$/)?", re.IGNORECASE)


def parse_name(text: str) -> Name:
    r"""Read a path name, a bare name, or a format name, which begins with a keyword and `=`.

    A bare name is a private queue of this queue manager: `orders` is `.\private$\orders`. Any name
    may have `FormatName:` in front, as .NET writes it; a direct name may have slashes.
    """
    if text[:1] in ("F", "f"):
        text = _PREFIX.sub("", text, count=1)
    if not _KEYWORD.match(text):
        return parse_path(text)
    try:
        return parse_format_name(text)
    except IllegalFormatName:
        elements = [_WITH_SLASHES.sub(_with_backslashes, one) for one in text.split(",")]
        written = ",".join(elements)
        if written == text:
            raise
        return parse_format_name(written)


def parse_path(text: str) -> PathName:
    """Read a path name, or a bare name."""
    if _SEPARATOR.search(text):
        return PathName.parse(text)
    if _BARE.fullmatch(text):
        return PathName.parse(f".\\private$\\{text}")
    if _PATTERN.fullmatch(text):
        raise IllegalQueuePathname(
            f"{excerpt(text)} is a pattern, and one queue is to be named",
            "Name one queue. `posthouse queue list --match` lists those that fit a pattern.",
        )
    return PathName.parse(text)


def is_bare(text: str) -> bool:
    """Whether a text is the name alone of a private queue of this queue manager."""
    return _BARE.fullmatch(text) is not None and not any(letter.isspace() for letter in text)


def _with_backslashes(found: re.Match[str]) -> str:
    return f"{found[1]}\\" + ("private$\\" if found[2] else "")
