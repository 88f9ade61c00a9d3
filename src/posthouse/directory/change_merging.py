"""Merges a change that was made to an older version of an object into the present version.

A caller who changes a list has it from a mirror. What others have put in or taken out since then
is not theirs to undo: a certificate that was withdrawn does not come back with the next one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from posthouse.directory.certificates import with_entries
from posthouse.directory.objects import (
    DirectoryObject,
    DistributionList,
    QueueManager,
    RoutingLink,
    User,
)
from posthouse.security.keys import unpack_user_certificates

T = TypeVar("T", bound=Hashable)

_LISTS: Final[dict[type[DirectoryObject], tuple[str, ...]]] = {
    DistributionList: ("members",),
    RoutingLink: ("site_gate_identifier_list",),
    QueueManager: (
        "in_routing_server_identifier_list",
        "out_routing_server_identifier_list",
        "site_identifier_list",
    ),
}


def rebased(
    value: DirectoryObject, base: DirectoryObject | None, present: DirectoryObject
) -> DirectoryObject:
    """What `base` became `value` by, done to `present`; attributes that are not lists as they are.

    Raises RemoteProtocolError where the certificates of a user cannot be read.
    """
    if base is None or present == base:
        return value
    if isinstance(value, User):
        assert isinstance(base, User)
        assert isinstance(present, User)
        return _with_certificates_of(value, base, present)
    lists = {
        name: merged(*(getattr(one, name) for one in (value, base, present)))
        for name in _LISTS.get(type(value), ())
    }
    changed: Any = msgspec.structs.replace(value, **lists) if lists else value
    return changed  # type: ignore[no-any-return]


def merged(value: Sequence[T], base: Sequence[T], present: Sequence[T]) -> tuple[T, ...]:
    """The present list with what was added and without what was taken out."""
    if tuple(present) == tuple(base):
        return tuple(value)
    before = set(base)
    removed = before.difference(value)
    added = [one for one in value if one not in before]
    return tuple(dict.fromkeys([*(one for one in present if one not in removed), *added]))


def _with_certificates_of(value: User, base: User, present: User) -> User:
    found = [
        {one.digest: one for one in unpack_user_certificates(user.certificates)}
        for user in (value, base, present)
    ]
    kept = merged(*(tuple(entries) for entries in found))
    known = {**found[2], **found[0]}
    return with_entries(value, tuple(known[digest] for digest in kept))
