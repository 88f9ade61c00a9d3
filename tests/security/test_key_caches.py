"""Caches of keys and certificates with their cleanup timers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.message_values import AES_PROVIDER, BASE_PROVIDER
from posthouse.security.key_caches import (
    GRACE_MS,
    CachedSymmetricKey,
    CachedUserCert,
    ExpiringCache,
    KeyCaches,
)
from posthouse.security.keys import UserCertificate
from posthouse.security.settings import MessageSecuritySettings
from tests.security.key_ring import next_cleanup

LIFETIME = 600_000
CERTIFICATE = UserCertificate.of(b"certificate")


def caches() -> KeyCaches:
    return KeyCaches(4, 4, 4, LIFETIME, 2 * LIFETIME)


def key_at(now_ms: int, number: int = 0) -> CachedSymmetricKey:
    return CachedSymmetricKey(bytes(16), AES_PROVIDER, 0x6610, b"blob%d" % number, b"key", now_ms)


def keys_of(kind: str) -> ExpiringCache[CachedSymmetricKey]:
    cache = getattr(caches(), kind)
    assert isinstance(cache, ExpiringCache)
    return cache


EVERY = pytest.mark.parametrize(
    "kind",
    [
        pytest.param("receive", marks=pytest.mark.spec("MS-MQQB 3.1.2.10/1")),
        pytest.param("send", marks=pytest.mark.spec("MS-MQQB 3.1.2.11/1")),
        pytest.param("send_base", marks=pytest.mark.spec("MS-MQQB 3.1.2.12/1")),
    ],
)
EVERY_EVENT = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            "receive",
            marks=[
                pytest.mark.spec("MS-MQQB 3.1.6.10/1", "MS-MQQB 3.1.6.10/2", "MS-MQQB 3.1.2.10/1")
            ],
        ),
        pytest.param(
            "send",
            marks=[
                pytest.mark.spec("MS-MQQB 3.1.6.11/1", "MS-MQQB 3.1.6.11/2", "MS-MQQB 3.1.2.11/1")
            ],
        ),
        pytest.param(
            "send_base", marks=[pytest.mark.spec("MS-MQQB 3.1.6.12/1", "MS-MQQB 3.1.2.12/1")]
        ),
    ],
)


@EVERY
def test_timer_starts_with_the_first_key_and_not_again_with_the_second(kind: str) -> None:
    cache = keys_of(kind)
    assert cache.next_deadline_ms is None
    cache.add(1, key_at(1000))
    cache.add(2, key_at(5000))
    assert cache.next_deadline_ms == 1000 + LIFETIME


@EVERY_EVENT
def test_event_removes_what_is_too_old_and_restarts_for_the_oldest_left(kind: str) -> None:
    cache = keys_of(kind)
    cache.add(1, key_at(1000))
    cache.add(2, key_at(5000))
    cache.advance(999 + LIFETIME)  # not due
    assert len(cache) == 2
    now = 1001 + LIFETIME
    cache.advance(now)
    assert cache.find(1) is None
    assert cache.find(2) is not None
    assert cache.next_deadline_ms == now + LIFETIME + GRACE_MS - (now - 5000)


@EVERY_EVENT
def test_event_that_leaves_nothing_stops_the_timer(kind: str) -> None:
    cache = keys_of(kind)
    cache.add(1, key_at(1000))
    cache.advance(1000 + 2 * LIFETIME)
    assert len(cache) == 0
    assert cache.next_deadline_ms is None


@pytest.mark.spec("MS-MQQB 3.1.6.10/1")
def test_key_as_old_as_its_lifetime_stays_until_the_restarted_timer() -> None:
    cache = keys_of("receive")
    cache.add(1, key_at(1000))
    cache.advance(1000 + LIFETIME)
    assert len(cache) == 1
    assert cache.next_deadline_ms == 1000 + LIFETIME + GRACE_MS
    cache.advance(1000 + LIFETIME + GRACE_MS)
    assert len(cache) == 0


@pytest.mark.spec("MS-MQQB 3.1.2.13/1", "MS-MQQB 3.1.6.13/1", "MS-MQQB 3.1.6.13/2")
def test_certificates_have_their_own_lifetime_and_the_same_timer() -> None:
    every = caches()
    cache = every.certificates
    cache.add(1, CachedUserCert(CERTIFICATE, b"sid", 0))
    cache.add(2, CachedUserCert(CERTIFICATE, b"other", 9))
    assert cache.next_deadline_ms == next_cleanup(every) == 2 * LIFETIME
    every.advance(2 * LIFETIME + 1)
    assert cache.find(1) is None
    assert cache.next_deadline_ms == 2 * LIFETIME + GRACE_MS + 9


def test_entries_hold_what_the_document_lists() -> None:
    key = CachedSymmetricKey(b"g" * 16, AES_PROVIDER, 0x6610, b"blob", b"secret", 7)
    assert (key.remote_guid, key.provider, key.algorithm) == (b"g" * 16, AES_PROVIDER, 0x6610)
    assert (key.encrypted_key, key.key, key.cached_ms) == (b"blob", b"secret", 7)
    certificate = CachedUserCert(CERTIFICATE, b"sid", 9)
    assert (certificate.user_cert, certificate.security_id) == (CERTIFICATE, b"sid")
    assert certificate.cached_ms == 9
    assert "secret" not in repr(key)


@given(st.integers(1, 20), st.lists(st.integers(0, 10**6), min_size=1, max_size=60))
def test_full_cache_drops_its_oldest_half_first(size: int, times: list[int]) -> None:
    cache = ExpiringCache[CachedSymmetricKey](size, LIFETIME)
    for number, cached_ms in enumerate(times):
        before = dict(cache._entries)
        cache.add(number, key_at(cached_ms, number))
        assert len(cache) <= size
        assert cache.find(number) is not None
        if len(before) == size:
            dropped = {k for k in before if cache.find(k) is None}
            assert len(dropped) == max(1, size // 2)
            kept = [entry.cached_ms for k, entry in before.items() if k not in dropped]
            assert all(before[k].cached_ms <= ms for k in dropped for ms in kept)


def test_base_keys_that_we_would_send_have_a_list_of_their_own() -> None:
    every = caches()
    assert every.sent_with(BASE_PROVIDER) is every.send_base
    assert every.sent_with(AES_PROVIDER) is every.send


def test_next_deadline_is_the_earliest_of_all_and_nothing_after_clearing() -> None:
    every = caches()
    every.send.add(1, key_at(500))
    every.receive.add(1, key_at(100))
    assert next_cleanup(every) == 100 + LIFETIME
    every.clear()
    assert next_cleanup(every) is None
    assert len(every.send) == len(every.receive) == 0


def test_sizes_and_lifetimes_are_those_of_the_document() -> None:
    settings = MessageSecuritySettings()
    assert settings.certificate_cache_size == settings.send_key_cache_size == 53
    assert settings.receive_key_cache_size == 127
    assert settings.symmetric_key_lifetime_s == 600
    assert settings.certificate_lifetime_s == 1200
    assert settings.preferred_advanced_algorithm == 0x6610
    assert settings.preferred_enhanced_algorithm == 0x6801
