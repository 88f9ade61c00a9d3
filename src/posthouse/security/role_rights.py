"""The rights on queues that a role allows, for every protocol."""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.model.roles import Role
from posthouse.security.rights import (
    GET_QUEUE_PERMISSIONS,
    GET_QUEUE_PROPERTIES,
    PEEK_MESSAGE,
)

_SEEING: Final = GET_QUEUE_PROPERTIES | GET_QUEUE_PERMISSIONS


class RoleRights(NamedTuple):
    """Rights that a role leaves, and those it has only where content is left out or masked."""

    limit: int
    hidden: int = 0


ROLE_RIGHTS: Final = {
    Role.METRICS: RoleRights(0),
    Role.LOOK: RoleRights(_SEEING, PEEK_MESSAGE),
    Role.READ: RoleRights(_SEEING | PEEK_MESSAGE),
    Role.OPERATE: RoleRights(~0),
    Role.ADMINISTER: RoleRights(~0),
}
