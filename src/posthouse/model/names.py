"""All names of queues in one place: path names, format names, next hops ([MS-MQMQ] 2.1)."""

import re
from typing import TypeAlias

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
    "parse_format_name",
    "parse_name",
]

Name: TypeAlias = PathName | FormatName
"""Whatever may stand for a queue in a command or call."""

_KEYWORD = re.compile(r"[^\\/]*=")


def parse_name(text: str) -> Name:
    """Read a path name, or a format name where the text begins with a keyword and `=`."""
    return parse_format_name(text) if _KEYWORD.match(text) else PathName.parse(text)
