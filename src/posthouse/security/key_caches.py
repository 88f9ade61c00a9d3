"""Caches of keys and certificates, with the time that each entry stays.

[MS-MQQB] 3.1.1.3.3, 3.1.1.3.4, 3.1.2.10 to 3.1.2.13 and 3.1.6.10 to 3.1.6.13. The four cleanup
timers follow one rule, so they are one class; the time comes in with every call.
"""

from typing import Any, Final, Generic, NamedTuple, TypeVar

from posthouse.model.message_values import BASE_PROVIDER
from posthouse.security.keys import UserCertificate

GRACE_MS: Final = 60_000
"""[MS-MQQB] 3.1.6.10: a restarted timer waits a minute longer than the oldest entry lives."""


class CachedSymmetricKey(NamedTuple):
    """[MS-MQQB] 3.1.1.3.3: a session key, in the clear and as the receiver gets it."""

    remote_guid: bytes
    provider: str
    algorithm: int
    encrypted_key: bytes  # a SIMPLEBLOB
    key: bytes
    cached_ms: int
    fault: str = ""  # why a body under this key is refused, once it was decrypted

    def __repr__(self) -> str:
        """Without the keys, which do not belong into a log."""
        return f"CachedSymmetricKey({self.provider!r}, 0x{self.algorithm:04X}, {self.cached_ms})"


class CachedUserCert(NamedTuple):
    """[MS-MQQB] 3.1.1.3.4: a certificate that its owner's SID was found with."""

    user_cert: UserCertificate
    security_id: bytes
    cached_ms: int


Entry = TypeVar("Entry", CachedSymmetricKey, CachedUserCert)


class ExpiringCache(Generic[Entry]):
    """A list of bounded size with its cleanup timer."""

    def __init__(self, size: int, lifetime_ms: int) -> None:
        assert size > 0
        self.size = size
        self.lifetime_ms = lifetime_ms
        self.next_deadline_ms: int | None = None  # None: the timer is stopped
        self._entries: dict[Any, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: object) -> Entry | None:
        """The entry with exactly this key."""
        return self._entries.get(key)

    def add(self, key: object, entry: Entry) -> None:
        """A new entry; a full list loses its oldest half first, a stopped timer starts."""
        if key not in self._entries and len(self._entries) >= self.size:
            self._drop_oldest_half()
        self._entries[key] = entry
        if self.next_deadline_ms is None:
            self.next_deadline_ms = entry.cached_ms + self.lifetime_ms

    def _drop_oldest_half(self) -> None:
        oldest_first = sorted(self._entries, key=lambda key: self._entries[key].cached_ms)
        for key in oldest_first[: max(1, self.size // 2)]:
            del self._entries[key]

    def advance(self, now_ms: int) -> None:
        """The cleanup timer's event, if it is due: old entries go, and it restarts for the rest."""
        if self.next_deadline_ms is None or now_ms < self.next_deadline_ms:
            return
        born = now_ms - self.lifetime_ms
        self._entries = {k: e for k, e in self._entries.items() if e.cached_ms >= born}
        oldest = min((entry.cached_ms for entry in self._entries.values()), default=None)
        self.next_deadline_ms = None
        if oldest is not None:
            self.next_deadline_ms = oldest + self.lifetime_ms + GRACE_MS

    def clear(self) -> None:
        """Forgets everything, as after a change of keys or certificates."""
        self._entries.clear()
        self.next_deadline_ms = None


class KeyCaches:
    """The caches of one queue manager; all start empty, [MS-MQQB] 3.1.3.1.

    Keys of the Base provider have a list of their own on the sending side. On the receiving side
    the document gives that list no timer; here every received key is in the list that has one.
    """

    def __init__(
        self,
        receive_size: int,
        send_size: int,
        certificate_size: int,
        key_lifetime_ms: int,
        certificate_lifetime_ms: int,
    ) -> None:
        self.receive = ExpiringCache[CachedSymmetricKey](receive_size, key_lifetime_ms)
        self.send = ExpiringCache[CachedSymmetricKey](send_size, key_lifetime_ms)
        self.send_base = ExpiringCache[CachedSymmetricKey](send_size, key_lifetime_ms)
        self.certificates = ExpiringCache[CachedUserCert](certificate_size, certificate_lifetime_ms)

    def sent_with(self, provider: str) -> ExpiringCache[CachedSymmetricKey]:
        """The list for session keys that we make for this provider."""
        return self.send_base if provider == BASE_PROVIDER else self.send

    def advance(self, now_ms: int) -> None:
        """Runs whichever cleanup timer is due."""
        self.receive.advance(now_ms)
        self.send.advance(now_ms)
        self.send_base.advance(now_ms)
        self.certificates.advance(now_ms)

    def clear(self) -> None:
        """Forgets everything."""
        for cache in (self.receive, self.send, self.send_base):
            cache.clear()
        self.certificates.clear()
