"""Pings before a session: asking and answering ([MS-MQQB] 2.1.2, 3.1.7.6-9; figure 11).

A datagram holds little and proves nothing: a silent or refusing answer delays a session and no
more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from posthouse.engine.settings import host_key
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.binary.settings import PingSettings
from posthouse.wire.binary.ping import ping_request, ping_response, read_ping

COOKIE_MASK = 0xFFFFFFFF
Result = Callable[[bool], None]


class _Waiting(NamedTuple):
    address: str
    until_ms: int
    done: Result


class Pinger:
    """Send Ping Request (3.1.7.6) with its timers, and Receive Ping Request (3.1.7.7).

    Several may be asked at once: each request has its own cookie, and the one that an answer
    carries states which it belongs to.
    """

    def __init__(
        self,
        queue_manager: Callable[[], bytes],
        send: Callable[[str, bytes], None],
        now: Callable[[], int],
        settings: PingSettings | None = None,
        rearm: Callable[[Pinger], None] = lambda pinger: None,
    ) -> None:
        settings = settings or PingSettings()
        self.cookie = 0  # PingCookie, 3.1.1.3
        self.asked = self.answered = 0
        self._queue_manager = queue_manager
        self._send = send
        self._now = now
        self._response_ms = settings.response_ms
        self.goes_first = settings.first  # before a session is opened
        self._rearm = rearm
        self._waiting: dict[int, _Waiting] = {}

    def ask(self, address: str, done: Result) -> None:
        """Send Ping Request (3.1.7.6); `done` gets rStatus, by an answer or by the timer."""
        self.cookie = (self.cookie + 1) & COOKIE_MASK
        self.asked += 1
        until_ms = self._now() + self._response_ms
        self._waiting[self.cookie] = _Waiting(address, until_ms, done)
        self._send(address, ping_request(self._queue_manager(), self.cookie))
        self._rearm(self)

    def receive_response(self, datagram: bytes, address: str) -> None:
        """Receive Ping Response (3.1.7.8); an answer that was not asked for is ignored."""
        try:
            response = read_ping(datagram)
        except RemoteProtocolError:
            return
        waiting = self._waiting.get(response.cookie)
        if waiting is not None and host_key(address) == host_key(waiting.address):
            del self._waiting[response.cookie]
            waiting.done(not response.refused)  # 3.1.7.9

    def receive_request(self, datagram: bytes, *, refused: bool) -> bytes | None:
        """Receive Ping Request (3.1.7.7): the answer, None to what is not a request."""
        try:
            request = read_ping(datagram)
        except RemoteProtocolError:
            return None
        self.answered += 1
        return ping_response(request, self._queue_manager(), refused=refused)

    def tick(self) -> None:
        """Ping Response Timer Event (3.1.6.8): who has not answered in time is not there."""
        now_ms = self._now()
        for cookie, waiting in list(self._waiting.items()):
            if waiting.until_ms <= now_ms and self._waiting.pop(cookie, None) is not None:
                waiting.done(False)

    def next_deadline_ms(self) -> int | None:
        """When the first of those asked is late."""
        return min((waiting.until_ms for waiting in self._waiting.values()), default=None)
