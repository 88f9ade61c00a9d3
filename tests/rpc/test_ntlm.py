"""NTLM: published values, both ends of ours, tampering, and anything that is not a login."""

import struct
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.rpc.ntlm import messages
from posthouse.rpc.ntlm.authentication import (
    Account,
    NtlmAcceptor,
    NtlmContext,
    ServerNames,
    split_user,
)
from posthouse.rpc.ntlm.keys import (
    client_keys,
    hmac_md5,
    make_response,
    proves,
    rc4,
    response_key,
    server_keys,
    session_base_key,
)
from posthouse.rpc.ntlm.messages import Authenticate
from posthouse.rpc.ntlm.session import NtlmSession
from posthouse.rpc.security import BadProtection, Identity, Level, LoginRefused
from posthouse.security.nt_hash import nt_hash

from .login_book import (
    CLIENT_CHALLENGE,
    DOMAIN,
    FILETIME,
    PASSWORD,
    SERVER_CHALLENGE,
    SESSION_KEY,
    USER,
    LoginBook,
    acceptor,
    agreed,
    initiator,
)

SIGNED_LEVELS = [Level.CALL, Level.PACKET, Level.INTEGRITY, Level.PRIVACY]
PROTECTED = [Level.PACKET, Level.INTEGRITY, Level.PRIVACY]


# -- the values of [MS-NLMP] 4.2.4


def published_key() -> bytes:
    return response_key(nt_hash("Password"), "User", "Domain")


def published_response() -> bytes:
    info = messages.pack_attributes(
        {
            messages.AV_DOMAIN: "Domain".encode("utf-16-le"),
            messages.AV_COMPUTER: "Server".encode("utf-16-le"),
        }
    )
    return make_response(published_key(), SERVER_CHALLENGE, CLIENT_CHALLENGE, 0, info)


def test_published_hashes() -> None:
    assert nt_hash("Password").hex() == "a4f49c406510bdcab6824ee7c30fd852"
    assert published_key().hex() == "0c868a403bfd7a93a3001ef22ef02e3f"


def test_published_response_and_keys() -> None:
    response = published_response()
    assert response[:16].hex() == "68cd0ab851e51c96aabc927bebef6a1c"
    assert proves(published_key(), SERVER_CHALLENGE, response)
    base = session_base_key(published_key(), response)
    assert base.hex() == "8de40ccadbc14a82f15cb0ad0de95ca3"
    assert rc4(base).update(SESSION_KEY).hex() == "c5dad2544fc9799094ce1ce90bc9d03e"


def test_published_seal() -> None:
    ours, theirs = client_keys(SESSION_KEY), server_keys(SESSION_KEY)
    assert ours.sign.hex() == "4788dc861b4782f35d43fd98fe1a2d39"
    assert ours.seal.hex() == "59f600973cc4960a25480a7c196e4c58"
    session = NtlmSession(ours, theirs, key_exchange=True)
    body, signature = session.protect(Level.PRIVACY, b"", "Plaintext".encode("utf-16-le"), b"")
    assert body.hex() == "54e50165bf1936dc996020c1811b0f06fb5f"
    assert signature.hex() == "010000007fb38ec5c55d497600000000"


# -- a login


def test_the_right_password_tells_who_it_is() -> None:
    client, server = agreed()
    assert server.identity == Identity(USER.lower(), "ALPHA", "ntlm")
    assert client.identity is None
    assert {client.signature_size_at(level) for level in PROTECTED} == {16}


@pytest.mark.parametrize("domain", ["", "ALPHA", "elsewhere.example", "WORK"])
def test_any_domain_means_the_accounts_of_this_server(domain: str) -> None:
    assert agreed(initiator(domain=domain))[1].complete


@pytest.mark.parametrize("user", ["ALICE", "alice", "aLiCe"])
def test_the_case_of_a_name_does_not_matter(user: str) -> None:
    assert agreed(initiator(user))[1].complete


def test_letters_without_one_capital_keep_their_form() -> None:
    assert response_key(bytes(16), "straße", "") == response_key(bytes(16), "STRAßE", "")
    assert response_key(bytes(16), "straße", "") != response_key(bytes(16), "STRASSE", "")


def refused_with(book: LoginBook, **who: str) -> str:
    client, server = initiator(**who), acceptor(book)
    challenge = server.step(client.step(b"") or b"") or b""
    with pytest.raises(LoginRefused) as caught:
        server.step(client.step(challenge) or b"")
    assert not server.complete
    assert server.identity is None
    return str(caught.value)


def test_wrong_passwords_and_unknown_users_are_refused_alike() -> None:
    book = LoginBook()
    wrong = refused_with(book, password="another")
    unknown = refused_with(book, user="mallory")
    nobody = refused_with(book, user="mallory", password="")
    assert wrong == unknown == nobody
    assert book.told == ["refused Alice", "refused mallory", "refused mallory"]


def test_a_user_whom_nobody_knows_cannot_use_the_hash_that_stands_in_for_his() -> None:
    client, server = initiator("mallory"), acceptor()
    client._account = Account("mallory", DOMAIN, bytes(16))
    challenge = server.step(client.step(b"") or b"") or b""
    with pytest.raises(LoginRefused):
        server.step(client.step(challenge) or b"")


def test_a_refused_context_protects_nothing() -> None:
    server = acceptor()
    with pytest.raises(LoginRefused):
        server.step(b"NTLMSSP\0")
    with pytest.raises(BadProtection):
        server.unprotect(Level.PRIVACY, b"", b"body", b"", bytes(16))


@pytest.mark.spec("RPC/23")
def test_the_proof_is_over_the_octets_that_came() -> None:
    """Whatever stands behind the attributes was hashed as well, whether it is known or not."""
    key = response_key(nt_hash(PASSWORD), USER, DOMAIN)
    for tail in (b"", b"\0\0\0\0", b"\0\0\0\0 and more"):
        for info in (bytes(4), messages.pack_attributes({0x4711: b"odd"})):
            blob = bytes.fromhex("0101000000000000") + bytes(8) + CLIENT_CHALLENGE + bytes(4)
            blob += info + tail
            whole = make_response(key, SERVER_CHALLENGE, CLIENT_CHALLENGE, 0, b"")
            assert len(whole) == 16 + 32
            proof = hmac_md5(key, SERVER_CHALLENGE + blob)
            assert login_with(proof + blob)
            assert not login_with(proof + blob + b"\0")
            assert not login_with(proof + blob[:-1])
            assert not login_with(bytes(16) + blob)


def login_with(response: bytes, **changed: object) -> bool:
    """Whether an AUTHENTICATE message with this response is accepted."""
    server = acceptor()
    flags = messages.UNICODE | messages.EXTENDED_SESSION_SECURITY | messages.KEY_128
    server.step(messages.pack_negotiate(flags))
    message = Authenticate(response, DOMAIN, USER, b"", flags)._replace(**changed)  # type: ignore[arg-type]
    try:
        server.step(messages.pack_authenticate(message, b"", ""))
    except LoginRefused:
        return False
    return server.complete


def good_response(filetime: int = FILETIME, info: bytes = bytes(4)) -> bytes:
    key = response_key(nt_hash(PASSWORD), USER, DOMAIN)
    return make_response(key, SERVER_CHALLENGE, CLIENT_CHALLENGE, filetime, info)


def test_what_is_not_ntlm_2_is_refused() -> None:
    assert login_with(good_response())
    assert not login_with(b"")
    assert not login_with(bytes(24))  # NTLM version 1
    assert not login_with(good_response(), user="")
    assert not login_with(good_response(), flags=messages.UNICODE | messages.KEY_128)
    anonymous = messages.UNICODE | messages.EXTENDED_SESSION_SECURITY | messages.KEY_128
    assert not login_with(good_response(), flags=anonymous | messages.ANONYMOUS)


def test_attributes_without_end_are_refused() -> None:
    key = response_key(nt_hash(PASSWORD), USER, DOMAIN)
    blob = make_response(key, SERVER_CHALLENGE, CLIENT_CHALLENGE, 0, b"")[16:-4] + b"\2\0\xff\0"
    assert not login_with(hmac_md5(key, SERVER_CHALLENGE + blob) + blob)


@pytest.mark.parametrize(
    "missing", [messages.UNICODE, messages.EXTENDED_SESSION_SECURITY, messages.KEY_128]
)
def test_a_client_that_wants_less_is_refused(missing: int) -> None:
    with pytest.raises(LoginRefused):
        acceptor().step(messages.pack_negotiate(0xFFFF_FFBF & ~missing))


def test_nothing_of_an_exchange_is_kept_behind_it() -> None:
    for client in (initiator(), initiator(password="wrong")):
        server = acceptor()
        challenge = server.step(client.step(b"") or b"") or b""
        with suppress(LoginRefused):
            server.step(client.step(challenge) or b"")
        for end in (client, server):
            assert not [value for value in vars(end).values() if b"NTLMSSP" in bytes_of(value)]


def bytes_of(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


def test_long_first_messages_are_refused() -> None:
    negotiate = initiator().step(b"") or b""
    acceptor().step(negotiate.ljust(2048, b"x"))
    with pytest.raises(LoginRefused):
        acceptor().step(negotiate.ljust(2049, b"x"))


def test_connectionless_ntlm_is_refused() -> None:
    with pytest.raises(LoginRefused):
        acceptor().step(messages.pack_negotiate(0xFFFF_FFFF))


@pytest.mark.parametrize(("length", "accepted"), [(1024, True), (1025, False)])
def test_names_are_not_longer_than_on_windows(length: int, accepted: bool) -> None:
    """Strangers send them, and each character has its price."""
    domain = "d" * length
    key = response_key(nt_hash(PASSWORD), USER, domain)
    response = make_response(key, SERVER_CHALLENGE, CLIENT_CHALLENGE, FILETIME, bytes(4))
    assert login_with(response, domain=domain) is accepted


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_key_exchange_needs_a_key(size: int) -> None:
    client, server = initiator(), acceptor()
    challenge = server.step(client.step(b"") or b"") or b""
    message = messages.unpack_authenticate(client.step(challenge) or b"")
    message = message._replace(
        nt_response=good_response(), session_key=bytes(size), flags=message.flags
    )
    with pytest.raises(LoginRefused):
        server.step(messages.pack_authenticate(message, b"", ""))


# -- the challenge


@pytest.mark.spec("RPC/24")
@pytest.mark.parametrize("asked", [0, messages.VERSION])
def test_a_challenge_has_room_for_its_version_always(asked: int) -> None:
    flags = messages.UNICODE | messages.EXTENDED_SESSION_SECURITY | messages.KEY_128 | asked
    challenge = acceptor().step(messages.pack_negotiate(flags)) or b""
    name_offset, info_offset = struct.unpack_from("<I", challenge, 16)[0], challenge[44]
    assert name_offset == 56
    assert info_offset == 56 + len("ALPHA") * 2
    assert bool(messages.unpack_challenge(challenge).flags & messages.VERSION) == bool(asked)
    assert (challenge[48:56] != bytes(8)) == bool(asked)


def test_a_challenge_names_the_server_and_the_time() -> None:
    challenge = acceptor().step(initiator().step(b"") or b"") or b""
    read = messages.unpack_challenge(challenge)
    assert read.server_challenge == SERVER_CHALLENGE
    assert messages.unpack_attributes(read.target_info) == {
        messages.AV_DOMAIN: "ALPHA".encode("utf-16-le"),
        messages.AV_COMPUTER: "ALPHA".encode("utf-16-le"),
        messages.AV_DNS_DOMAIN: "alpha.example".encode("utf-16-le"),
        messages.AV_DNS_COMPUTER: "alpha.example".encode("utf-16-le"),
        messages.AV_TIMESTAMP: FILETIME.to_bytes(8, "little"),
    }


def test_nothing_is_offered_that_was_not_asked_for() -> None:
    flags = messages.UNICODE | messages.EXTENDED_SESSION_SECURITY | messages.KEY_128
    challenge = acceptor().step(messages.pack_negotiate(flags)) or b""
    offered = messages.unpack_challenge(challenge).flags
    assert offered == flags | messages.TARGET_INFO | messages.NTLM


def test_computer_names_of_any_length() -> None:
    assert ServerNames("a-very-long-computer-name.example").netbios == "A-VERY-LONG-COM"


# -- messages that were changed, repeated, or sent in another order


def test_a_changed_octet_anywhere_ends_the_login() -> None:
    """The MIC covers all of it; what can change is where nothing lies."""
    client, server = initiator(), acceptor()
    challenge = server.step(client.step(b"") or b"") or b""
    token = client.step(challenge) or b""
    for at in range(len(token)):
        other = acceptor()
        other.step(initiator().step(b"") or b"")
        with pytest.raises(LoginRefused):
            other.step(token[:at] + bytes([token[at] ^ 1]) + token[at + 1 :])


def test_a_changed_first_message_ends_the_login() -> None:
    client, server = initiator(), acceptor()
    first = client.step(b"") or b""
    weaker = messages.unpack_negotiate(first) & ~messages.SEAL
    challenge = server.step(messages.pack_negotiate(weaker)) or b""
    with pytest.raises(LoginRefused, match="changed"):
        server.step(client.step(challenge) or b"")


def test_a_mic_that_is_promised_has_to_be_there() -> None:
    info = messages.pack_attributes({messages.AV_FLAGS: b"\2\0\0\0"})
    assert not login_with(good_response(info=info))
    assert login_with(good_response(info=messages.pack_attributes({messages.AV_FLAGS: b"\1"})))


def test_a_login_that_was_overheard_is_worth_nothing() -> None:
    client, server = initiator(), acceptor()
    first = client.step(b"") or b""
    last = client.step(server.step(first) or b"") or b""
    server.step(last)
    for token in (last, first):
        with pytest.raises(LoginRefused):
            server.step(token)
    assert server.complete
    later = acceptor()
    later._server_challenge = b"another!"
    later.step(first)
    with pytest.raises(LoginRefused):
        later.step(last)


def test_messages_in_another_order_are_refused() -> None:
    client, server = initiator(), acceptor()
    first = client.step(b"") or b""
    last = client.step(server.step(first) or b"") or b""
    fresh = acceptor()
    with pytest.raises(LoginRefused):
        fresh.step(last)
    with pytest.raises(LoginRefused):
        fresh.step(first)  # one attempt
    waiting = acceptor()
    waiting.step(first)
    with pytest.raises(LoginRefused):
        waiting.step(first)


def test_an_initiator_takes_one_challenge() -> None:
    with pytest.raises(LoginRefused):
        initiator().step(b"something")
    client, server = initiator(), acceptor()
    challenge = server.step(client.step(b"") or b"") or b""
    client.step(challenge)
    with pytest.raises(LoginRefused):
        client.step(challenge)


def test_an_initiator_takes_nothing_weak() -> None:
    client, server = initiator(), acceptor()
    challenge = bytearray(server.step(client.step(b"") or b"") or b"")
    challenge[22] &= ~0x08  # extended session security
    with pytest.raises(LoginRefused):
        client.step(bytes(challenge))
    assert not client.complete


def test_a_server_without_time_gets_lm_2_and_no_mic() -> None:
    client = initiator()
    flags = messages.unpack_negotiate(client.step(b"") or b"") & ~messages.TARGET_INFO
    token = client.step(messages.pack_challenge(flags, SERVER_CHALLENGE, "X", b"")) or b""
    size, _, offset = struct.unpack_from("<HHI", token, 12)
    assert size == 24
    assert token[offset + 16 : offset + 24] == CLIENT_CHALLENGE
    assert messages.mic_of(token) == bytes(16)
    assert not client.has_mic


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for token in (data, b"NTLMSSP\0" + data):
        for context in (acceptor(), begun()):
            assert not logs_in(context, token)
        client = initiator()
        client.step(b"")
        try:
            client.step(token)
        except LoginRefused:
            assert not client.complete


def begun() -> NtlmAcceptor:
    server = acceptor()
    server.step(initiator().step(b"") or b"")
    return server


def logs_in(context: NtlmAcceptor, token: bytes) -> bool:
    try:
        context.step(token)
        context.step(token)
    except LoginRefused:
        return False
    return context.complete


@given(st.binary(max_size=120), st.data())
def test_a_damaged_login_is_refused(noise: bytes, data: st.DataObject) -> None:
    client, server = initiator(), acceptor()
    token = client.step(server.step(client.step(b"") or b"") or b"") or b""
    at = data.draw(st.integers(0, len(token) - 1))
    damaged = token[:at] + noise + token[at + len(noise) :]
    if damaged == token:
        return
    with pytest.raises(LoginRefused):
        server.step(damaged)
    assert not server.complete


# -- protection


End = NtlmContext | NtlmSession


def exchange(level: Level, sender: End, receiver: End, *parts: bytes) -> bytes:
    before, body, after = parts
    sent, signature = sender.protect(level, before, body, after)
    assert (sent == body) == (level < Level.PRIVACY or not body)
    return receiver.unprotect(level, before, sent, after, signature)


@pytest.mark.parametrize("level", Level)
def test_what_is_protected_comes_out_at_the_other_end(level: Level) -> None:
    client, server = agreed()
    for body in (b"", b"x", bytes(1200), b"y" * 70_000):
        assert exchange(level, client, server, b"head", body, b"trailer") == body
        assert exchange(level, server, client, b"", body, b"") == body


@given(st.lists(st.tuples(st.sampled_from(SIGNED_LEVELS), st.booleans(), st.binary(max_size=64))))
def test_levels_and_directions_in_any_order(calls: list[tuple[Level, bool, bytes]]) -> None:
    client, server = agreed()
    for level, from_client, body in calls:
        level = max(level, Level.PACKET)
        ends = (client, server) if from_client else (server, client)
        assert exchange(level, *ends, b"head", body, b"") == body


def test_connect_level_signs_nothing() -> None:
    client, server = agreed()
    assert client.protect(Level.CONNECT, b"", b"body", b"") == (b"body", b"")
    assert server.unprotect(Level.CONNECT, b"", b"body", b"", b"") == b"body"


@pytest.mark.parametrize("level", PROTECTED)
def test_a_change_of_any_octet_is_noticed(level: Level) -> None:
    parts = [b"head", b"a body of some length", b"trailer"]
    sizes = [*map(len, parts), 16]
    for part in range(4):
        for at in range(sizes[part]):
            client, server = agreed()
            body, signature = client.protect(level, *parts)
            sent = [parts[0], body, parts[2], signature]
            octets = bytearray(sent[part])
            octets[at] ^= 0x40
            sent[part] = bytes(octets)
            with pytest.raises(BadProtection):
                server.unprotect(level, *sent)


@pytest.mark.parametrize("level", PROTECTED)
def test_nothing_can_be_repeated_left_out_or_sent_back(level: Level) -> None:
    client, server = agreed()
    first = client.protect(level, b"", b"one", b"")
    second = client.protect(level, b"", b"two", b"")
    with pytest.raises(BadProtection):
        server.unprotect(level, b"", second[0], b"", second[1])
    client, server = agreed()
    server.unprotect(level, b"", first[0], b"", first[1])
    with pytest.raises(BadProtection):
        server.unprotect(level, b"", first[0], b"", first[1])
    client, server = agreed()
    with pytest.raises(BadProtection):
        client.unprotect(level, b"", first[0], b"", first[1])


def test_once_something_did_not_fit_nothing_does() -> None:
    client, server = agreed()
    body, signature = client.protect(Level.INTEGRITY, b"", b"one", b"")
    with pytest.raises(BadProtection):
        server.unprotect(Level.INTEGRITY, b"", body, b"", bytes(16))
    with pytest.raises(BadProtection):
        server.unprotect(Level.INTEGRITY, b"", body, b"", signature)


@given(st.binary(max_size=40), st.binary(max_size=40), st.sampled_from(PROTECTED))
def test_any_bytes_are_no_signature(body: bytes, signature: bytes, level: Level) -> None:
    _, server = agreed()
    with pytest.raises(BadProtection):
        server.unprotect(level, b"", body, b"", signature)


@pytest.mark.parametrize("key_exchange", [True, False])
def test_checksums_are_in_the_clear_without_a_key_exchange(key_exchange: bool) -> None:
    ours, theirs = client_keys(SESSION_KEY), server_keys(SESSION_KEY)
    client = NtlmSession(ours, theirs, key_exchange=key_exchange)
    server = NtlmSession(theirs, ours, key_exchange=key_exchange)
    for level in PROTECTED:
        assert exchange(level, client, server, b"", b"body", b"") == b"body"
    plain = partial(NtlmSession, ours, theirs, key_exchange=False)
    signed = plain().protect(Level.INTEGRITY, b"", b"body", b"")[1]
    assert plain().protect(Level.PRIVACY, b"", b"body", b"")[1] == signed


# -- names


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("alice", ("alice", "")),
        (r"WORK\alice", ("alice", "WORK")),
        ("alice@work.example", ("alice@work.example", "")),
        (r".\alice", ("alice", ".")),
    ],
)
def test_users_with_and_without_domain(text: str, parts: tuple[str, str]) -> None:
    assert split_user(text) == parts


def test_no_hash_is_shown() -> None:
    secret = nt_hash(PASSWORD)
    shown = repr(Account(USER, DOMAIN, secret))
    assert repr(secret) not in shown
    assert secret.hex() not in shown
