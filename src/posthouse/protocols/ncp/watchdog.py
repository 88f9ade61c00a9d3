"""When a client on UDP counts as lost (qms-facts 7.3): asked several times, silent each time."""

from __future__ import annotations

from posthouse.protocols.ncp.settings import NcpSettings


class Watchdog:
    """The clock of one connection. Everything that comes from its client winds it up."""

    def __init__(self, settings: NcpSettings, now_ms: int) -> None:
        self._settings = settings
        self._heard_ms = now_ms
        self._asked = 0

    def heard(self, now_ms: int) -> None:
        """The client is there."""
        self._heard_ms = now_ms
        self._asked = 0

    def deadline_ms(self, *, is_logged_in: bool) -> int:
        """When `is_due` may be true; connections without a login end sooner, and unasked."""
        settings = self._settings
        if not is_logged_in:
            return self._heard_ms + settings.login_ms
        asked_for_ms = self._asked * settings.watchdog_interval_ms
        return self._heard_ms + settings.watchdog_delay_ms + asked_for_ms

    def asks(self, now_ms: int, *, is_logged_in: bool) -> bool | None:
        """At its deadline: whether to ask the client; False: it is lost; None: not yet."""
        if now_ms < self.deadline_ms(is_logged_in=is_logged_in):
            return None
        if not is_logged_in or self._asked >= self._settings.watchdog_count:
            return False
        self._asked += 1
        return True
