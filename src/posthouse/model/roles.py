"""The roles of tokens: how far each reaches into management."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """How far a token reaches into management, smallest first."""

    READ = "read"
    OPERATE = "operate"
    ADMINISTER = "administer"

    def includes(self, needed: Role) -> bool:
        """Whether this role is enough where `needed` is asked for."""
        return _RANK[self] >= _RANK[needed]


_RANK = {role: rank for rank, role in enumerate(Role)}
