"""NTLM with the libraries of others at the other end: pyspnego in both roles, impacket's client."""

from pathlib import Path

import pytest
import spnego
from impacket import ntlm as impacket
from spnego.iov import BufferType

from posthouse.rpc.ntlm import messages
from posthouse.rpc.ntlm.authentication import NtlmContext
from posthouse.rpc.security import BadProtection, Level, LoginRefused

from .login_book import DOMAIN, PASSWORD, USER, acceptor, initiator

HEAD, BODY, TRAILER = b"header", b"0123456789abcdef" * 40, b"trailer"
REQUEST = spnego.ContextReq.integrity | spnego.ContextReq.confidentiality


def spnego_client(
    password: str = PASSWORD, request: spnego.ContextReq = REQUEST
) -> spnego.ContextProxy:
    return spnego.client(
        f"{DOMAIN}\\{USER}", password, "alpha", "host", protocol="ntlm", context_req=request
    )


def spnego_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> spnego.ContextProxy:
    users = tmp_path / "users"
    users.write_text(f"{DOMAIN}:{USER}:{PASSWORD}\n", encoding="utf-8")
    monkeypatch.setenv("NTLM_USER_FILE", str(users))
    return spnego.server(protocol="ntlm", context_req=REQUEST)


def check_protection(ours: NtlmContext, theirs: spnego.ContextProxy) -> None:
    """Header signing and sealing, then signatures alone, both ways, several times."""
    for _ in range(3):
        body, signature = ours.protect(Level.PRIVACY, HEAD, BODY, TRAILER)
        buffers = [
            (BufferType.sign_only, HEAD),
            (BufferType.data, body),
            (BufferType.sign_only, TRAILER),
            (BufferType.header, signature),
        ]
        assert theirs.unwrap_iov(buffers).buffers[1].data == BODY
        wrapped = theirs.wrap_iov(
            [
                (BufferType.sign_only, HEAD),
                (BufferType.data, BODY),
                (BufferType.sign_only, TRAILER),
                BufferType.header,
            ]
        ).buffers
        sealed, signature = wrapped[1].data or b"", wrapped[3].data or b""
        assert ours.unprotect(Level.PRIVACY, HEAD, sealed, TRAILER, signature) == BODY
        signature = ours.protect(Level.INTEGRITY, HEAD, BODY, TRAILER)[1]
        theirs.verify(HEAD + BODY + TRAILER, signature)
        signature = theirs.sign(BODY)
        assert ours.unprotect(Level.INTEGRITY, b"", BODY, b"", signature) == BODY


@pytest.mark.spec("RPC/23", "RPC/24")
def test_pyspnego_logs_in_here() -> None:
    client, server = spnego_client(), acceptor()
    challenge = server.step(client.step() or b"")
    server.step(client.step(challenge) or b"")
    assert server.complete
    assert server.has_mic
    assert client.complete
    check_protection(server, client)


def test_pyspnego_logs_in_without_protection() -> None:
    client, server = spnego_client(request=spnego.ContextReq.none), acceptor()
    server.step(client.step(server.step(client.step() or b"")) or b"")
    assert server.complete


def test_pyspnego_with_a_wrong_password_is_refused() -> None:
    client, server = spnego_client(PASSWORD.lower()), acceptor()
    token = client.step(server.step(client.step() or b"")) or b""
    with pytest.raises(LoginRefused):
        server.step(token)


def test_we_log_in_at_pyspnego(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, server = initiator(), spnego_server(tmp_path, monkeypatch)
    challenge = server.step(client.step(b"")) or b""
    server.step(client.step(challenge))
    assert server.complete
    assert server.client_principal == f"{DOMAIN}\\{USER}"
    check_protection(client, server)


def test_pyspnego_refuses_our_wrong_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = initiator(password="another"), spnego_server(tmp_path, monkeypatch)
    challenge = server.step(client.step(b"")) or b""
    with pytest.raises(spnego.exceptions.InvalidTokenError):
        server.step(client.step(challenge))


class ImpacketSession:
    """What impacket's RPC client does with a session key."""

    def __init__(self, flags: int, key: bytes) -> None:
        self.flags = flags
        self.numbers = {"Client": 0, "Server": 0}
        self.sign_keys = {who: impacket.SIGNKEY(flags, key, who) for who in self.numbers}
        self.handles = {
            who: impacket.ARC4.new(impacket.SEALKEY(flags, key, who)).encrypt
            for who in self.numbers
        }

    def sealed(self, who: str, plain: bytes, signed: bytes) -> tuple[bytes, bytes]:
        number = self.numbers[who]
        self.numbers[who] += 1
        body, signature = impacket.SEAL(
            self.flags, self.sign_keys[who], b"", signed, plain, number, self.handles[who]
        )
        return body, signature.getData()

    def signed(self, who: str, message: bytes) -> bytes:
        number = self.numbers[who]
        self.numbers[who] += 1
        signature = impacket.SIGN(
            self.flags, self.sign_keys[who], message, number, self.handles[who]
        )
        data: bytes = signature.getData()
        return data


def impacket_login(password: str, *, signing: bool) -> tuple[NtlmContext, ImpacketSession]:
    server = acceptor()
    first = impacket.getNTLMSSPType1("", DOMAIN, signingRequired=signing)
    challenge = server.step(first.getData()) or b""
    last, key = impacket.getNTLMSSPType3(first, challenge, USER, password, DOMAIN)
    assert server.step(last.getData()) is None
    return server, ImpacketSession(last["flags"], key)


@pytest.mark.spec("RPC/23", "RPC/24")
def test_impacket_logs_in_here() -> None:
    server, peer = impacket_login(PASSWORD, signing=True)
    for _ in range(3):
        body, signature = peer.sealed("Client", BODY, HEAD + BODY + TRAILER)
        assert server.unprotect(Level.PRIVACY, HEAD, body, TRAILER, signature) == BODY
        ours = server.protect(Level.PRIVACY, HEAD, BODY, TRAILER)
        assert ours == peer.sealed("Server", BODY, HEAD + BODY + TRAILER)
        signature = peer.signed("Client", BODY)
        assert server.unprotect(Level.INTEGRITY, b"", BODY, b"", signature) == BODY
        assert server.protect(Level.PACKET, b"", BODY, b"")[1] == peer.signed("Server", BODY)


def test_impacket_logs_in_for_the_connection_alone() -> None:
    server, peer = impacket_login(PASSWORD, signing=False)
    assert server.complete
    with pytest.raises(BadProtection):
        server.unprotect(Level.INTEGRITY, b"", BODY, b"", bytes(16))
    assert not peer.flags & messages.KEY_EXCHANGE


def test_impacket_with_a_wrong_password_is_refused() -> None:
    with pytest.raises(LoginRefused):
        impacket_login("another", signing=True)


def test_our_proof_is_what_impacket_computes() -> None:
    client, server = initiator(), acceptor()
    challenge = server.step(client.step(b"") or b"") or b""
    message = messages.unpack_authenticate(client.step(challenge) or b"")
    key = impacket.NTOWFv2(USER, PASSWORD, DOMAIN)
    answer = messages.unpack_challenge(challenge).server_challenge + message.nt_response[16:]
    assert impacket.hmac_md5(key, answer) == message.nt_response[:16]
    base = impacket.hmac_md5(key, message.nt_response[:16])
    exported = impacket.generateEncryptedSessionKey(base, message.session_key)
    peer = ImpacketSession(message.flags, exported)
    ours = client.protect(Level.PRIVACY, HEAD, BODY, TRAILER)
    assert ours == peer.sealed("Client", BODY, HEAD + BODY + TRAILER)
