"""A key ring in memory, and key pairs that are made once for all tests."""

from collections.abc import Iterable
from functools import cache

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from posthouse.security.certificates import make_certificate, make_private_key
from posthouse.security.key_blobs import public_key_of
from posthouse.security.key_caches import KeyCaches
from posthouse.security.keys import ProviderKey, UserCertificate, pack_public_key
from posthouse.security.message_security import Signer
from posthouse.security.providers import PROVIDERS

BITS = 1024  # small ones are made faster, and all that is tested holds for them
UTC_S = 1_800_000_000


@cache
def private_key(name: str) -> RSAPrivateKey:
    """The key pair of that name."""
    return make_private_key(BITS)


@cache
def certificate(name: str) -> bytes:
    """The certificate of that name."""
    return make_certificate(private_key(name), name, UTC_S, 365)


def provider_key(provider: str, name: str) -> ProviderKey:
    """A key as a machine publishes it."""
    blob = pack_public_key(public_key_of(private_key(name).public_key()))
    return ProviderKey(provider, PROVIDERS[provider].provider_type, blob)


class MemoryRing:
    """What a test has registered; the searches are counted."""

    def __init__(self) -> None:
        self.users: dict[bytes, list[str]] = {}
        self.machines: dict[bytes, list[str]] = {}
        self.published: dict[bytes, list[ProviderKey]] = {}
        self.own: dict[str, str] = {}
        self.searches = 0
        self.key_searches = 0

    def certificates_of(self, sid: bytes) -> Iterable[UserCertificate]:
        self.searches += 1
        return [UserCertificate.of(certificate(name)) for name in self.users.get(sid, ())]

    def certificates_of_machine(self, guid: bytes) -> Iterable[UserCertificate]:
        return [UserCertificate.of(certificate(name)) for name in self.machines.get(guid, ())]

    def is_registered(self, wanted: bytes) -> bool:
        names = [name for owned in self.users.values() for name in owned]
        return wanted in map(certificate, names)

    def public_keys(self, guid: bytes) -> tuple[ProviderKey, ...]:
        self.key_searches += 1
        return tuple(self.published.get(guid, ()))

    def private_key(self, provider: str) -> RSAPrivateKey | None:
        name = self.own.get(provider)
        return None if name is None else private_key(name)

    def signer(self, sid: bytes) -> Signer | None:
        for name in self.users.get(sid, ()):
            return Signer(private_key(name), certificate(name))
        return None


def next_cleanup(caches: KeyCaches) -> int | None:
    """When the first of the four cleanup timers is due."""
    every = (caches.receive, caches.send, caches.send_base, caches.certificates)
    due = (cache.next_deadline_ms for cache in every)
    return min((each for each in due if each is not None), default=None)
