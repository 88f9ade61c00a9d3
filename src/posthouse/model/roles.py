"""The roles of tokens and users, and what each may do in management."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """How far a token or a user reaches into management, smallest first.

    `metrics` gets /metrics and nothing else; `look` sees everything but the content of messages;
    `read` also sees that; `operate` also acts on messages; `administer` may do everything.
    """

    METRICS = "metrics"
    LOOK = "look"
    READ = "read"
    OPERATE = "operate"
    ADMINISTER = "administer"

    def includes(self, needed: Role) -> bool:
        """Whether this role is enough where `needed` is asked for."""
        return _RANK[self] >= _RANK[needed]

    def within(self, limit: Role | None) -> Role:
        """The smaller of this role and a limit, if there is one."""
        return self if limit is None or limit.includes(self) else limit


_RANK = {role: rank for rank, role in enumerate(Role)}
