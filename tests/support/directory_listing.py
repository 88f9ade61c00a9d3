"""All objects of a kind in a directory."""

from typing import Any

from posthouse.directory.base import (
    Directory,
    Found,
    SortOrder,
)
from posthouse.directory.objects import (
    DirectoryObject,
)
from tests.directory.world import (
    END_OF_DATA,
    SUCCESS,
)


def value_of(found: Found[Any]) -> Any:
    assert found.value is not None
    return found.value


def all_of(directory: Directory, kind: type[DirectoryObject], *sort: SortOrder) -> list[bytes]:
    handle = directory.begin(kind, (), None, sort).handle
    found = []
    while (result := directory.next(handle)).status is SUCCESS:
        found.append(value_of(result).identifier)
    assert result.status is END_OF_DATA
    assert directory.end(handle) is SUCCESS
    return found
