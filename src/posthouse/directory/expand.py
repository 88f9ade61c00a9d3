"""Expand Format Name ([MS-MQDMPR] 3.1.7.3.8): distribution lists become the names they hold.

A queue alias has a `DL=` name too, and becomes the name that it stands for ([MS-MQDSSM] 3.1.6.9).
"""

from collections.abc import Callable, Iterable
from typing import Final

from posthouse.directory.base import DirectoryOperationResult, Found, equals
from posthouse.directory.objects import DistributionList, QueueAlias
from posthouse.directory.service import DirectoryService
from posthouse.model.errors import IllegalFormatName, NoDs
from posthouse.model.names import (
    RESOLVED_MAX,
    DistributionListName,
    FormatName,
    MultipleName,
    SingleName,
    parse_format_name,
)

DEPTH_MAX: Final = 16
"""Lists in lists in lists ...; deeper nesting is taken for a mistake."""
NAMES_MAX: Final = RESOLVED_MAX
"""Names looked at on the way, many of which may turn out to be the same."""

_REMEDY: Final = "`posthouse directory list list` and `alias list` show what is in them."

Recipient = Found[DistributionList] | Found[QueueAlias]
ReadList = Callable[[bytes], Recipient]


def expand_format_name(name: FormatName, read: ReadList) -> FormatName:
    """The name with every distribution list resolved, each queue once, sorted.

    A list met again on the way is not resolved again, so circular lists end. One list that cannot
    be resolved fails the whole expansion.
    """
    if isinstance(name, MultipleName):
        elements: Iterable[SingleName] = name.names
    elif isinstance(name, DistributionListName):
        elements = (name,)
    else:
        return name
    distinct: dict[str, SingleName] = {}
    for element in sorted(_resolved(elements, read), key=lambda single: str(single).casefold()):
        distinct.setdefault(element.key, element)
    return _joined(list(distinct.values()), name)


def directory_reader(service: DirectoryService, now_ms: int) -> ReadList:
    """Reads lists and aliases through the directory service."""

    def read(guid: bytes) -> Recipient:
        filters = equals("identifier", guid)
        found = service.read_directory(DistributionList, filters, now_ms)
        if found.status is not DirectoryOperationResult.OBJECT_NOT_FOUND:
            return found
        return service.read_directory(QueueAlias, filters, now_ms)

    return read


def _resolved(elements: Iterable[SingleName], read: ReadList) -> list[SingleName]:
    names: list[SingleName] = []
    visited: set[bytes] = set()
    level = list(elements)
    for _ in range(DEPTH_MAX + 1):
        names += [name for name in level if not isinstance(name, DistributionListName)]
        lists = {name.guid: name for name in level if isinstance(name, DistributionListName)}
        level = []
        for guid in [guid for guid in lists if guid not in visited]:
            visited.add(guid)
            level += _members(lists[guid], read)
            if len(names) + len(level) + len(visited) > NAMES_MAX:
                raise IllegalFormatName(
                    f"the distribution lists hold too many names, more than {NAMES_MAX}", _REMEDY
                )
        if not level:
            return names
    raise IllegalFormatName(f"distribution lists nested more than {DEPTH_MAX} deep", _REMEDY)


def _members(name: DistributionListName, read: ReadList) -> list[SingleName]:
    found = read(name.guid)
    if found.status is DirectoryOperationResult.DIRECTORY_NOT_CONNECTED:
        raise NoDs(f"{name} cannot be resolved: the directory is not connected")
    value = found.value
    if value is None:
        raise IllegalFormatName(
            f"{name} cannot be resolved: {found.status.value}",
            "`posthouse directory list list` and `directory alias list` show which there are.",
        )
    members: list[SingleName] = []
    for text in (value.format_name,) if isinstance(value, QueueAlias) else value.members:
        member = parse_format_name(text)
        members += member.names if isinstance(member, MultipleName) else (member,)
    return members


def _joined(names: list[SingleName], asked: FormatName) -> FormatName:
    if not names:
        raise IllegalFormatName(f"{asked} contains no queue to send to", _REMEDY)
    return names[0] if len(names) == 1 else MultipleName(tuple(names))
