"""The token bucket that paces a source (RFC 3208 5.1.2, [MC-MQSRM] 2.1.3.1)."""

from __future__ import annotations

_MS_PER_S = 1000


class TokenBucket:
    """This many bytes a second, and a little at once.

    It counts thousandths of bytes, so that no rate loses anything by rounding.
    """

    __slots__ = ("_at_ms", "_rate", "_size", "_tokens")

    def __init__(self, rate: int, bucket_ms: int, packet_bytes: int, now_ms: int) -> None:
        self._rate = rate
        # One packet has to fit, or it could never leave.
        self._size = max(rate * bucket_ms, packet_bytes * _MS_PER_S)
        self._tokens = self._size
        self._at_ms = now_ms

    def take(self, size: int, now_ms: int) -> bool:
        """Whether this many bytes may leave now; they are counted if so."""
        self._fill(now_ms)
        if self._tokens < size * _MS_PER_S:
            return False
        self._tokens -= size * _MS_PER_S
        return True

    def ready_ms(self, size: int, now_ms: int) -> int:
        """When this many bytes may leave."""
        self._fill(now_ms)
        missing = size * _MS_PER_S - self._tokens
        return now_ms if missing <= 0 else now_ms - (-missing // self._rate)

    def _fill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._tokens = min(self._tokens + (now_ms - self._at_ms) * self._rate, self._size)
            self._at_ms = now_ms
