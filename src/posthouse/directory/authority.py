"""The interface of an authority: the file or server that may change a shared directory.

The engine reads a mirror of its own; the one that speaks for all managers is an authority: a file
that they share, or a directory server. Its calls block, and only one thread makes them at a time.
"""

from collections.abc import Collection
from typing import NamedTuple, Protocol, runtime_checkable

from posthouse.directory.base import DirectoryOperationResult
from posthouse.directory.objects import DirectoryObject


class AuthorityAway(Exception):
    """The authority cannot be reached, or cannot be understood; the text states why."""


class Refused(Exception):
    """The authority did not do as asked; `status` is what a directory operation reports."""

    def __init__(self, status: DirectoryOperationResult, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def failure_of(error: Exception) -> Refused | AuthorityAway:
    """How a call of an authority failed; one with a mistake in it counts as away."""
    mistake = AuthorityAway(f"{type(error).__name__}: {error}")
    return error if isinstance(error, Refused | AuthorityAway) else mistake


class Changes(NamedTuple):
    """Changes since `token` was issued; if `whole`, objects that are not listed are gone.

    Objects that cannot be understood are `unusable`: their earlier values stay, and `faults` give
    the reasons.
    """

    objects: list[DirectoryObject]
    gone: list[tuple[type[DirectoryObject], bytes]]
    whole: bool
    token: str
    unusable: frozenset[tuple[type[DirectoryObject], bytes]] = frozenset()
    faults: tuple[str, ...] = ()


class Authority(Protocol):
    """The directory that several queue managers share; `AuthorityAway` ends any call."""

    def changes(self, token: str) -> Changes:
        """All that changed since a token, everything for an empty one."""
        ...

    def close(self) -> None:
        """Lets go of connections; there is no call after this."""
        ...


@runtime_checkable
class TakesOneByOne(Protocol):
    """An authority that does one thing at a time."""

    def create(
        self, value: DirectoryObject, utc_s: int, attributes: Collection[str] | None = None
    ) -> DirectoryObject:
        """Stores a new object; gives it as stored: identifier, times and paths filled."""
        ...

    def write(
        self,
        value: DirectoryObject,
        utc_s: int,
        attributes: Collection[str] | None = None,
        base: DirectoryObject | None = None,
    ) -> DirectoryObject:
        """Updates all directory attributes of an object, or those named; gives it as stored.

        Of lists, only what is different from `base` is put in or taken out.
        """
        ...

    def delete(self, value: DirectoryObject) -> None:
        """Removes the object with this kind and identifier."""
        ...
