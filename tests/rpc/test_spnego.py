"""SPNEGO: both ends of ours, the libraries of others, lists that were changed, anything at all."""

from collections.abc import Callable
from pathlib import Path

import pytest
import spnego
from hypothesis import given
from hypothesis import strategies as st
from impacket import spnego as impacket
from spnego.iov import BufferType

from posthouse.rpc import spnego_tokens as tokens
from posthouse.rpc.security import BadProtection, Identity, Level, LoginRefused
from posthouse.rpc.spnego import Make, Mechanism, SpnegoAcceptor, SpnegoContext, SpnegoInitiator
from posthouse.rpc.spnego_tokens import KERBEROS_OID, KERBEROS_OID_OF_WINDOWS, NTLM_OID, Response

from .login_book import DOMAIN, PASSWORD, USER, LoginBook, acceptor, initiator

BODY = b"0123456789abcdef" * 10
LEVELS = [Level.PACKET, Level.INTEGRITY, Level.PRIVACY]


class Handshake:
    """A mechanism of another name that nobody knows a password of, and that ends at once."""

    mechanism = "handshake"
    has_mic = False
    identity: Identity | None = None
    complete = False

    def step(self, token: bytes) -> bytes | None:
        return b"hello"

    def signature_size_at(self, level: Level) -> int:
        return 1

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        return body, b"!"

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        return body

    def sign(self, message: bytes) -> bytes:
        return b"!"

    def verify(self, message: bytes, signature: bytes) -> None: ...


def client_end(*before: bytes) -> SpnegoInitiator:
    """NTLM, behind mechanisms that the client likes better."""
    makes: dict[bytes, Make] = dict.fromkeys(before, Handshake)
    return SpnegoInitiator({**makes, NTLM_OID: initiator})


def server_end(book: LoginBook | None = None) -> SpnegoAcceptor:
    return SpnegoAcceptor({NTLM_OID: lambda: acceptor(book)})


Tamper = Callable[[bytes], bytes]


def run(
    client: SpnegoInitiator, server: SpnegoAcceptor, tamper: Callable[[int, bytes], bytes]
) -> None:
    """Tokens to and fro until both ends are content; `tamper` sees each of them by number."""
    token: bytes | None = b""
    for leg in range(0, 10, 2):
        token = client.step(token or b"")
        if token is None:
            return
        token = server.step(tamper(leg, token))
        if token is None:
            return
        token = tamper(leg + 1, token)


def settled(*before: bytes) -> tuple[SpnegoInitiator, SpnegoAcceptor]:
    client, server = client_end(*before), server_end()
    run(client, server, lambda leg, token: token)
    assert client.complete
    assert server.complete
    return client, server


@pytest.mark.parametrize("before", [(), (KERBEROS_OID,), (KERBEROS_OID_OF_WINDOWS, KERBEROS_OID)])
def test_both_ends_agree_on_what_both_have(before: tuple[bytes, ...]) -> None:
    client, server = settled(*before)
    assert client.mechanism == server.mechanism == "ntlm"
    assert server.identity == Identity(USER.lower(), "ALPHA", "ntlm")
    for _ in range(2):
        for level in LEVELS:
            for one, other in ((client, server), (server, client)):
                sent, signature = one.protect(level, b"head", BODY, b"")
                assert len(signature) == one.signature_size_at(level)
                assert other.unprotect(level, b"head", sent, b"", signature) == BODY


def test_there_are_four_tokens_the_last_of_the_server() -> None:
    client, server = client_end(), server_end()
    challenge = server.step(client.step(b"") or b"") or b""
    first = tokens.unpack_response(challenge)
    assert (first.state, first.mechanism) == (tokens.ACCEPT_INCOMPLETE, NTLM_OID)
    last = server.step(client.step(challenge) or b"") or b""
    assert server.complete
    assert not client.complete
    assert tokens.unpack_response(last).state == tokens.ACCEPT_COMPLETED
    assert client.step(last) is None
    assert client.complete


def test_nothing_in_common_is_refused() -> None:
    server = server_end()
    with pytest.raises(LoginRefused):
        server.step(tokens.pack_init((KERBEROS_OID,), b"token"))
    with pytest.raises(LoginRefused):
        server.step(client_end().step(b"") or b"")  # one attempt


def test_a_wrong_password_is_refused_through_and_through() -> None:
    book = LoginBook()
    server = server_end(book)
    client = SpnegoInitiator({NTLM_OID: lambda: initiator(password="another")})
    challenge = server.step(client.step(b"") or b"") or b""
    with pytest.raises(LoginRefused):
        server.step(client.step(challenge) or b"")
    assert not server.complete
    assert server.identity is None
    assert book.told == ["refused Alice"]
    with pytest.raises(BadProtection):
        server.unprotect(Level.PRIVACY, b"", b"body", b"", bytes(16))


def test_who_takes_the_better_mechanism_away_is_noticed() -> None:
    """The client likes Kerberos best; somebody on the way tells each end that NTLM is all."""
    client, server = client_end(KERBEROS_OID), server_end()
    client.step(b"")
    switched = client.step(tokens.pack_response(Response(tokens.ACCEPT_INCOMPLETE, NTLM_OID)))
    negotiate = tokens.unpack_response(switched or b"").token or b""
    challenge = server.step(tokens.pack_init((NTLM_OID,), negotiate)) or b""
    token = client.step(challenge) or b""  # signs the list that it has sent
    with pytest.raises(LoginRefused, match="changed"):
        server.step(token)


def test_a_client_wants_the_list_signed_where_its_first_choice_was_not_taken() -> None:
    client, server = client_end(KERBEROS_OID), server_end()

    def without_mic(leg: int, token: bytes) -> bytes:
        if leg != 5:
            return token
        return tokens.pack_response(tokens.unpack_response(token)._replace(mic=None))

    with pytest.raises(LoginRefused, match="signed"):
        run(client, server, without_mic)
    assert not client.complete


def test_a_server_wants_the_list_signed_where_the_first_choice_was_not_taken() -> None:
    client, server = client_end(KERBEROS_OID), server_end()

    def without_mic(leg: int, token: bytes) -> bytes:
        if leg != 4:
            return token
        return tokens.pack_response(tokens.unpack_response(token)._replace(mic=None))

    with pytest.raises(LoginRefused, match="signed"):
        run(client, server, without_mic)
    assert not server.complete


@pytest.mark.parametrize("leg", [2, 3])
def test_a_changed_signature_of_the_list_is_refused(leg: int) -> None:
    for at in range(16):
        client, server = client_end(), server_end()

        def flip(number: int, token: bytes, at: int = at) -> bytes:
            if number != leg:
                return token
            response = tokens.unpack_response(token)
            mic = bytearray(response.mic or bytes(16))
            mic[at] ^= 1
            return tokens.pack_response(response._replace(mic=bytes(mic)))

        with pytest.raises(LoginRefused):
            run(client, server, flip)


def test_a_client_that_signs_nothing_is_let_in_by_its_first_choice() -> None:
    client, server = initiator(), server_end()
    first = tokens.pack_init((NTLM_OID,), client.step(b"") or b"")
    challenge = tokens.unpack_response(server.step(first) or b"").token or b""
    last = server.step(tokens.pack_response(Response(token=client.step(challenge)))) or b""
    assert tokens.unpack_response(last) == Response(tokens.ACCEPT_COMPLETED)
    sent, signature = client.protect(Level.PRIVACY, b"", BODY, b"")
    assert server.unprotect(Level.PRIVACY, b"", sent, b"", signature) == BODY


def test_bare_ntlm_is_taken_too() -> None:
    client, server = initiator(), server_end()
    assert server.step(client.step(server.step(client.step(b"") or b"") or b"") or b"") is None
    assert server.complete
    assert server.identity is not None


def test_a_first_token_may_be_missing() -> None:
    server = server_end()
    init = tokens.pack_init((NTLM_OID,), b"")
    without = init.replace(b"\xa2\x02\x04\x00", b"")
    shorter = bytearray(without)
    for at in (1, 11, 13):  # the three lengths around it
        shorter[at] -= 4
    assert tokens.unpack_init(bytes(shorter)).token is None
    answer = tokens.unpack_response(server.step(bytes(shorter)) or b"")
    assert answer == Response(tokens.ACCEPT_INCOMPLETE, NTLM_OID)


@pytest.mark.parametrize(
    "answer",
    [
        Response(tokens.REJECT, NTLM_OID),
        Response(tokens.ACCEPT_COMPLETED, NTLM_OID),
        Response(tokens.ACCEPT_INCOMPLETE, KERBEROS_OID),
        Response(tokens.ACCEPT_INCOMPLETE, NTLM_OID),
    ],
)
def test_a_client_ends_with_a_server_that_makes_no_sense(answer: Response) -> None:
    client = client_end()
    client.step(b"")
    with pytest.raises(LoginRefused):
        client.step(tokens.pack_response(answer))
    assert not client.complete
    with pytest.raises(LoginRefused):
        client.step(b"")


def test_a_server_does_not_change_its_mind() -> None:
    client, server = client_end(KERBEROS_OID), server_end()
    client.step(server.step(client.step(b"") or b"") or b"")
    with pytest.raises(LoginRefused):
        client.step(tokens.pack_response(Response(tokens.ACCEPT_INCOMPLETE, KERBEROS_OID, b"x")))


def test_a_server_that_speaks_first_is_refused() -> None:
    with pytest.raises(LoginRefused):
        client_end().step(b"hint")


def test_what_is_over_is_over() -> None:
    client, server = settled()
    for end in (client, server):
        with pytest.raises(LoginRefused):
            end.step(b"")
        assert end.complete


# -- tokens


OIDS = st.sampled_from([NTLM_OID, KERBEROS_OID, KERBEROS_OID_OF_WINDOWS, b"\x2a"])
OCTETS = st.none() | st.binary(max_size=300)
RESPONSES = st.builds(Response, st.none() | st.integers(0, 3), st.none() | OIDS, OCTETS, OCTETS)


@given(RESPONSES)
def test_responses_there_and_back(response: Response) -> None:
    assert tokens.unpack_response(tokens.pack_response(response)) == response


@given(st.lists(OIDS, min_size=1, max_size=5).map(tuple), st.binary(max_size=70_000))
def test_inits_there_and_back(mechanisms: tuple[bytes, ...], token: bytes) -> None:
    init = tokens.unpack_init(tokens.pack_init(mechanisms, token))
    listed = tokens.pack_mechanism_list(mechanisms)
    assert init == (mechanisms, listed, token, None)


def ends() -> list[SpnegoContext]:
    begun = server_end()
    begun.step(client_end().step(b"") or b"")
    asked = client_end()
    asked.step(b"")
    return [server_end(), begun, asked]


def check_refused(token: bytes) -> None:
    for end in ends():
        try:
            end.step(token)  # type: ignore[attr-defined]
        except LoginRefused:
            assert not end.complete


@given(st.binary(max_size=200))
def test_any_bytes_are_a_token_or_refused(data: bytes) -> None:
    for token in (data, b"\x60" + data, b"\xa1" + data, b"NTLMSSP\0" + data):
        check_refused(token)


@given(RESPONSES.map(tokens.pack_response), st.data())
def test_damaged_tokens_are_tokens_or_refused(token: bytes, data: st.DataObject) -> None:
    first = tokens.pack_init((KERBEROS_OID, NTLM_OID), b"token")
    for whole in (token, first):
        at = data.draw(st.integers(0, len(whole) - 1))
        noise = data.draw(st.binary(max_size=8))
        check_refused(whole[:at] + noise + whole[at + len(noise) :])
        check_refused(whole[:at])


@pytest.mark.parametrize(
    "data",
    [
        "",
        "a1",
        "a180",  # without a length
        "a1850000000000",  # of five octets
        "a1063004a0020a00",  # a state of no octets
        "a1073005a0030a0104",  # an unknown state
        "a1043002a000",  # a field without content
        "a10a3008a2020400a2020400",  # twice
        "a10a3008a3020400a2020400",  # not in order
        "a1033001a0",  # cut off
        "a1023000" + "00",  # and something behind it
    ],
)
def test_what_is_not_der_is_refused(data: str) -> None:
    with pytest.raises(LoginRefused):
        tokens.unpack_response(bytes.fromhex(data))


def test_too_many_mechanisms_are_refused() -> None:
    with pytest.raises(LoginRefused):
        tokens.unpack_init(tokens.pack_init((NTLM_OID,) * 33, b""))


def test_names_of_mechanisms_have_an_end() -> None:
    with pytest.raises(LoginRefused):
        tokens.unpack_init(tokens.pack_init((NTLM_OID, b"\x2a" * 1100), b""))


def test_hints_of_windows_are_passed_over() -> None:
    """[MS-SPNG] 2.2.1: negHints stand where RFC 4178 has the MIC."""
    listed = tokens.pack_mechanism_list((NTLM_OID,))
    hints = bytes.fromhex("a3083006a0041b024142")
    mic = bytes.fromhex("a4060404") + b"mic!"
    fields = b"\xa0" + bytes([len(listed)]) + listed + hints + mic
    inner = b"\x30" + bytes([len(fields)]) + fields
    content = b"\x06\x06" + tokens.SPNEGO_OID + b"\xa0" + bytes([len(inner)]) + inner
    init = tokens.unpack_init(b"\x60" + bytes([len(content)]) + content)
    assert init == ((NTLM_OID,), listed, None, b"mic!")


# -- the libraries of others


def test_impacket_reads_and_writes_the_same_tokens() -> None:
    theirs = impacket.SPNEGO_NegTokenInit(tokens.pack_init((KERBEROS_OID, NTLM_OID), b"token"))
    assert theirs["MechTypes"] == [KERBEROS_OID, NTLM_OID]
    assert theirs["MechToken"] == b"token"
    made = impacket.SPNEGO_NegTokenInit()
    made["MechTypes"] = [NTLM_OID]
    made["MechToken"] = b"token"
    init = tokens.unpack_init(made.getData())
    assert (init.mechanisms, init.token) == ((NTLM_OID,), b"token")
    response = impacket.SPNEGO_NegTokenResp(
        tokens.pack_response(Response(tokens.ACCEPT_INCOMPLETE, NTLM_OID, b"token"))
    )
    assert (response["NegState"], response["SupportedMech"]) == (b"\x01", NTLM_OID)
    assert response["ResponseToken"] == b"token"
    answer = impacket.SPNEGO_NegTokenResp()
    answer["ResponseToken"] = b"token"
    assert tokens.unpack_response(answer.getData()).token == b"token"


REQUEST = spnego.ContextReq.integrity | spnego.ContextReq.confidentiality


def check_protection(ours: SpnegoContext, theirs: spnego.ContextProxy) -> None:
    for _ in range(2):
        body, signature = ours.protect(Level.PRIVACY, b"head", BODY, b"")
        sealed = [
            (BufferType.sign_only, b"head"),
            (BufferType.data, body),
            (BufferType.header, signature),
        ]
        assert theirs.unwrap_iov(sealed).buffers[1].data == BODY
        plain = [(BufferType.sign_only, b"head"), (BufferType.data, BODY), BufferType.header]
        wrapped = theirs.wrap_iov(plain).buffers
        body, signature = wrapped[1].data or b"", wrapped[2].data or b""
        assert ours.unprotect(Level.PRIVACY, b"head", body, b"", signature) == BODY


def test_pyspnego_settles_with_our_server() -> None:
    server = server_end()
    client = spnego.client(
        f"{DOMAIN}\\{USER}", PASSWORD, "alpha", protocol="negotiate", context_req=REQUEST
    )
    token = client.step()
    while not client.complete:
        token = client.step(server.step(token or b""))
    assert server.complete
    check_protection(server, client)


def test_our_client_settles_with_pyspnego(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = tmp_path / "users"
    users.write_text(f"{DOMAIN}:{USER}:{PASSWORD}\n", encoding="utf-8")
    monkeypatch.setenv("NTLM_USER_FILE", str(users))
    server = spnego.server(protocol="negotiate", context_req=REQUEST)
    client = client_end()
    token = client.step(b"")
    while not client.complete:
        token = client.step(server.step(token) or b"")
    assert server.complete
    check_protection(client, server)


def test_a_mechanism_fits_its_protocol() -> None:
    mechanisms: list[Mechanism] = [initiator(), acceptor(), Handshake()]
    assert [one.mechanism for one in mechanisms] == ["ntlm", "ntlm", "handshake"]


@pytest.mark.parametrize("strip", [(), (2,), (3,), (2, 3), (4,), (5,), (4, 5)])
def test_no_client_ends_content_with_a_list_that_was_changed(strip: tuple[int, ...]) -> None:
    """Somebody in between takes the better mechanism away, and signatures of the list with it.

    The server sees a client whose first choice is NTLM, as many have it; the client has asked for
    the list to be signed, and stops. Without its keys the connection is worth nothing.
    """
    client, server = client_end(KERBEROS_OID), server_end()

    def tamper(leg: int, token: bytes) -> bytes:
        if leg == 0:
            return tokens.pack_init((NTLM_OID,), initiator().step(b"") or b"")
        response = tokens.unpack_response(token)
        if leg in strip:
            response = response._replace(mic=None)
        if leg == 1:  # the client is to begin with NTLM by itself
            response = response._replace(token=None)
        return tokens.pack_response(response)

    with pytest.raises(LoginRefused):
        run(client, server, tamper)
    assert not client.complete
    assert client.identity is None
    if server.complete:
        with pytest.raises(BadProtection):
            server.unprotect(Level.PRIVACY, b"", BODY, b"", bytes(16))
