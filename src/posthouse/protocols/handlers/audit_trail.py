"""The interface of the audit log for protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from posthouse.api.audit import AuditEntryJson, AuditPageJson, AuditParams


class Act(NamedTuple):
    """A call that is an act: who made it, from where, on what."""

    user: str
    role: str
    token: str
    address: str
    act: str
    object: dict[str, Any]


class AuditTrail(Protocol):
    """Where acts are written down."""

    @property
    def required(self) -> bool:
        """Whether an act is refused when it cannot be written down first."""

    def begin(self, act: Act, then: Callable[[Exception | None], None]) -> None:
        """Writes that an act begins; `then` gets None when that is durable, else why not."""

    def end(
        self, act: Act, outcome: str, error: str, result: dict[str, Any], then: Callable[[], None]
    ) -> None:
        """Writes what came of it; `then` is called when that is durable or cannot be."""

    def sign_in_refused(self, door: str, user: str, address: str, cause: str) -> None:
        """Writes that someone was not let in."""

    def settle(self) -> None:
        """Writes what was only counted so far."""

    def page(self, params: AuditParams, matches: Callable[[AuditEntryJson], bool]) -> AuditPageJson:
        """Entries that match, within bounds; for a thread."""


class NoTrail:
    """The trail of doors that have none: embedded queue managers."""

    required = False

    def begin(self, act: Act, then: Callable[[Exception | None], None]) -> None:
        """Writes nothing."""
        then(None)

    def end(
        self, act: Act, outcome: str, error: str, result: dict[str, Any], then: Callable[[], None]
    ) -> None:
        """Writes nothing."""
        then()

    def sign_in_refused(self, door: str, user: str, address: str, cause: str) -> None:
        """Writes nothing."""

    def settle(self) -> None:
        """Counts nothing."""

    def page(self, params: AuditParams, matches: Callable[[AuditEntryJson], bool]) -> AuditPageJson:
        """There are none."""
        return AuditPageJson(entries=[], next=None)
