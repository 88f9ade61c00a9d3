"""NTLMv2, both ends ([MS-NLMP] 3.1.5.1, 3.2.5.1): extended session security with 128-bit keys.

NTLMv1, LM responses, anonymous logins and connectionless use are refused: nothing below what every
Windows since 2000 can do is needed here.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from posthouse.rpc.domain_logins import Answered, DomainQuestion, DomainVerdict
from posthouse.rpc.ntlm import messages
from posthouse.rpc.ntlm.keys import (
    ATTRIBUTES_OFFSET,
    CHALLENGE_SIZE,
    KEY_SIZE,
    DirectionKeys,
    client_keys,
    hmac_md5,
    is_response,
    make_response,
    proves,
    rc4,
    response_key,
    server_keys,
    session_base_key,
)
from posthouse.rpc.ntlm.messages import Authenticate, Challenge
from posthouse.rpc.ntlm.session import SIGNATURE_SIZE, NtlmSession
from posthouse.rpc.pac import DomainUser
from posthouse.rpc.security import BadProtection, Identity, Level, LoginRefused, VerdictNeeded

REQUIRED: Final = messages.UNICODE | messages.EXTENDED_SESSION_SECURITY | messages.KEY_128
WANTED: Final = (
    REQUIRED
    | messages.REQUEST_TARGET
    | messages.NTLM
    | messages.SIGN
    | messages.SEAL
    | messages.ALWAYS_SIGN
    | messages.TARGET_INFO
    | messages.VERSION
    | messages.KEY_EXCHANGE
    | messages.KEY_56
)
NEGOTIATE_SIZE_MAX: Final = 2048
"""The message is kept until the login is over, also for strangers; no client needs more than two
names.
"""
NAME_LENGTH_MAX: Final = 1024  # of a user or a domain, as Windows has it
_COMPUTER_NAME_LENGTH_MAX = 15  # NetBIOS
_NO_HASH = bytes(KEY_SIZE)
_NOT_A_LOGIN = "the name or the password is wrong"


class Login(Protocol):
    """The accounts, as one client at one address can reach them."""

    def nt_hash(self, user: str) -> bytes | None:
        """The NT hash of an account that may log in here now; None without a reason."""
        ...

    def accepted(self, user: str, mechanism: str) -> Identity:
        """The password was right; who that is."""
        ...

    def refused(self, user: str) -> None:
        """The proof was wrong, or there is nothing to compare it with."""
        ...


class DomainDesk(Protocol):
    """A domain controller that verifies users of a domain, as one client can reach it."""

    def takes(self, user: str, domain: str) -> bool:
        """Whether it is asked for a user of whom nothing is known here."""
        ...

    def ask(self, question: DomainQuestion, answered: Answered) -> None:
        """Calls back in a later turn of the loop."""
        ...

    def vouched(self, user: str, domain: DomainUser) -> Identity | None:
        """Who that is, once the domain has said so; None: they may not log in here."""
        ...

    def refused(self, user: str, cause: str) -> None:
        """The domain did not take it."""
        ...


class ServerNames(NamedTuple):
    """What a server calls itself in its challenge."""

    computer: str
    dns: str = ""
    domain: str = ""  # that it is a member of

    @property
    def netbios(self) -> str:
        """The computer's NetBIOS name."""
        return self.computer.partition(".")[0][:_COMPUTER_NAME_LENGTH_MAX].upper()


class NtlmContext:
    """What both ends have in common: messages so far, then a session."""

    mechanism = "ntlm"

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.has_mic = False  # then SPNEGO needs one, too
        self._negotiate = b""
        self._challenge = b""
        self._session: NtlmSession | None = None
        self._over = False  # one way or the other

    @property
    def complete(self) -> bool:
        """Whether there is a session."""
        return self._session is not None

    def signature_size_at(self, level: Level) -> int:
        """The size of a signature, at every level that has signatures."""
        return SIGNATURE_SIZE

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        """As in SecurityContext."""
        assert self._session is not None
        return self._session.protect(level, before, body, after)

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        """As in SecurityContext."""
        if self._session is None:
            raise BadProtection("nothing was agreed upon")
        return self._session.unprotect(level, before, body, after, signature)

    def sign(self, message: bytes) -> bytes:
        """The mechListMIC of SPNEGO."""
        assert self._session is not None
        return self._session.sign(message)

    def verify(self, message: bytes, signature: bytes) -> None:
        """Checks the other end's mechListMIC; raises BadProtection."""
        assert self._session is not None
        self._session.verify(message, signature)

    def _forget(self) -> None:
        """Drops the messages of an exchange that is over."""
        self._negotiate = self._challenge = b""

    def _mic(self, exported: bytes, authenticate: bytes) -> bytes:
        """The MIC over all three messages (3.1.5.1.2)."""
        blank = messages.with_mic(authenticate, bytes(messages.MIC_SIZE))
        return hmac_md5(exported, self._negotiate + self._challenge + blank)


class NtlmAcceptor(NtlmContext):
    """The end that checks a password."""

    def __init__(
        self,
        login: Login,
        names: ServerNames,
        server_challenge: bytes,
        filetime: int,
        domain: DomainDesk | None = None,
    ) -> None:
        assert len(server_challenge) == CHALLENGE_SIZE
        super().__init__()
        self._login = login
        self._domain = domain
        self._verdict: DomainVerdict | None = None  # once a domain was asked
        self._names = names
        self._server_challenge = server_challenge
        self._filetime = filetime
        self._offered = 0

    def step(self, token: bytes) -> bytes | None:
        """NEGOTIATE gives CHALLENGE; AUTHENTICATE ends it. There is one attempt."""
        if self._over:
            raise LoginRefused("this exchange is over")
        self._over = True
        if not self._challenge:
            answer = self._challenged(token)
            self._over = False
            return answer
        try:
            self._authenticated(token)
        except VerdictNeeded:
            self._over = False
            raise
        except Exception:
            self._forget()
            raise
        self._forget()
        return None

    def _challenged(self, token: bytes) -> bytes:
        if len(token) > NEGOTIATE_SIZE_MAX:
            raise LoginRefused("a first message of NTLM that is too long")
        asked = messages.unpack_negotiate(token)
        if asked & REQUIRED != REQUIRED or asked & messages.DATAGRAM:
            raise LoginRefused("NTLM without Unicode, extended session security or 128-bit keys")
        self._offered = (asked & WANTED) | messages.TARGET_INFO | messages.NTLM
        if asked & messages.REQUEST_TARGET:
            self._offered |= messages.TARGET_TYPE_SERVER
        self._negotiate = token
        self._challenge = messages.pack_challenge(
            self._offered, self._server_challenge, self._names.netbios, self._target_info()
        )
        return self._challenge

    def _target_info(self) -> bytes:
        computer = self._names.netbios.encode("utf-16-le")
        domain = (self._names.domain or self._names.netbios).encode("utf-16-le")
        dns = (self._names.dns or self._names.computer).encode("utf-16-le")
        return messages.pack_attributes(
            {
                messages.AV_DOMAIN: domain,
                messages.AV_COMPUTER: computer,
                messages.AV_DNS_DOMAIN: dns,
                messages.AV_DNS_COMPUTER: dns,
                messages.AV_TIMESTAMP: self._filetime.to_bytes(8, "little"),
            }
        )

    def _authenticated(self, token: bytes) -> None:
        message = messages.unpack_authenticate(token)
        flags = message.flags & self._offered
        if flags & REQUIRED != REQUIRED or message.flags & messages.ANONYMOUS or not message.user:
            raise LoginRefused("an anonymous login, or not what was offered")
        if max(len(message.user), len(message.domain)) > NAME_LENGTH_MAX:
            raise LoginRefused("a name that is not allowed")
        try:
            exported = self._exported_key(message, flags, token)
        except LoginRefused:
            self._refused(message.user)
            raise
        self.identity = self._identified(message.user)
        ours, theirs = server_keys(exported), client_keys(exported)
        self._session = NtlmSession(ours, theirs, key_exchange=_exchanges_keys(flags))

    def _refused(self, user: str) -> None:
        if self._domain is not None and self._verdict is not None and self._verdict.reason:
            self._domain.refused(user, self._verdict.reason)
        else:
            self._login.refused(user)

    def _identified(self, user: str) -> Identity:
        proof = None if self._verdict is None else self._verdict.proof
        if proof is None or self._domain is None:
            return self._login.accepted(user, self.mechanism)
        identity = self._domain.vouched(user, proof.user)
        if identity is None:
            raise LoginRefused(_NOT_A_LOGIN)
        return identity

    def _exported_key(self, message: Authenticate, flags: int, token: bytes) -> bytes:
        """ExportedSessionKey of a login that is right in all respects.

        Somebody unknown costs the same steps as a wrong password, and has the same answer.
        """
        response = message.nt_response
        if not is_response(response):
            raise LoginRefused("a response of NTLM version 1, or none")
        base = self._base_key(message, response)
        exported = _exchanged(base, message, flags)
        self._check_mic(exported, response, token)
        return exported

    def _base_key(self, message: Authenticate, response: bytes) -> bytes:
        """An account here goes first; raises VerdictNeeded where a domain is asked."""
        if self._verdict is not None:
            if self._verdict.proof is None:
                raise LoginRefused(_NOT_A_LOGIN)
            return self._verdict.proof.session_key
        known = self._login.nt_hash(message.user)
        key = response_key(known or _NO_HASH, message.user, message.domain)
        if proves(key, self._server_challenge, response) and known is not None:
            return session_base_key(key, response)
        if self._domain is None or not self._domain.takes(message.user, message.domain):
            raise LoginRefused(_NOT_A_LOGIN)
        raise VerdictNeeded(partial(self._ask, message, response, self._domain))

    def _ask(
        self,
        message: Authenticate,
        response: bytes,
        domain: DomainDesk,
        told: Callable[[], None],
    ) -> None:
        def answered(verdict: DomainVerdict) -> None:
            self._verdict = verdict
            told()

        names = message.user, message.domain, message.workstation[:NAME_LENGTH_MAX]
        domain.ask(DomainQuestion(*names, self._server_challenge, response), answered)

    def _check_mic(self, exported: bytes, response: bytes, token: bytes) -> None:
        """The proof covers the attributes, so that this demand cannot be removed."""
        attributes = messages.unpack_attributes(response[ATTRIBUTES_OFFSET:])
        flags = int.from_bytes(attributes.get(messages.AV_FLAGS, b""), "little")
        if not flags & messages.AV_FLAG_MIC:
            return
        mic = messages.mic_of(token)
        room = messages.has_mic_room(token)
        if not (room and hmac.compare_digest(self._mic(exported, token), mic)):
            raise LoginRefused("the messages were changed on their way")
        self.has_mic = True


def _exchanges_keys(flags: int) -> bool:
    """Only who wants to sign or to seal sends a key (3.1.5.1.2)."""
    return bool(flags & messages.KEY_EXCHANGE and flags & (messages.SIGN | messages.SEAL))


def _exchanged(base: bytes, message: Authenticate, flags: int) -> bytes:
    if not _exchanges_keys(flags):
        return base
    if len(message.session_key) != KEY_SIZE:
        raise LoginRefused("a key exchange without a key")
    return rc4(base).update(message.session_key)


class Account(NamedTuple):
    """The name that an initiator claims; the hash proves it."""

    user: str
    domain: str
    nt_hash: bytes

    def __repr__(self) -> str:
        """Without the hash, which does not belong into a log."""
        return f"Account({self.user!r}, {self.domain!r})"


def split_user(text: str) -> tuple[str, str]:
    r"""User and domain of `DOMAIN\user`; `user@domain` stays one name, as servers want it."""
    domain, backslash, user = text.rpartition("\\")
    return (user, domain) if backslash else (text, "")


class NtlmInitiator(NtlmContext):
    """The client's end, which has a password. NTLM does not prove the server's identity to it."""

    def __init__(
        self,
        account: Account,
        host: str,
        client_challenge: bytes,
        session_key: bytes,
        filetime: int,
    ) -> None:
        assert len(client_challenge) == CHALLENGE_SIZE
        assert len(session_key) == KEY_SIZE
        super().__init__()
        self._account = account
        self._host = host
        self._client_challenge = client_challenge
        self._session_key = session_key
        self._filetime = filetime

    def step(self, token: bytes) -> bytes | None:
        """Nothing gives NEGOTIATE, CHALLENGE gives AUTHENTICATE."""
        if self._over:
            raise LoginRefused("this exchange is over")
        if not self._negotiate:
            if token:
                raise LoginRefused("the server speaks first")
            self._negotiate = messages.pack_negotiate(WANTED)
            return self._negotiate
        self._over = True
        try:
            return self._authenticate(token)
        finally:
            self._forget()

    def _authenticate(self, token: bytes) -> bytes:
        challenge = messages.unpack_challenge(token)
        flags = challenge.flags & WANTED
        if flags & REQUIRED != REQUIRED:
            raise LoginRefused("the server wants NTLM without what makes it safe")
        self._challenge = token
        user, domain, nt_hash = self._account
        key = response_key(nt_hash, user, domain)
        response, lm_response = self._responses(challenge, key)
        exported = base = session_base_key(key, response)
        encrypted = b""
        if _exchanges_keys(flags):
            exported = self._session_key
            encrypted = rc4(base).update(exported)
        message = Authenticate(response, domain, user, encrypted, flags)
        self._session = NtlmSession(*_initiators(exported), key_exchange=bool(encrypted))
        authenticate = messages.pack_authenticate(message, lm_response, "")
        if not self.has_mic:
            return authenticate
        return messages.with_mic(authenticate, self._mic(exported, authenticate))

    def _responses(self, challenge: Challenge, key: bytes) -> tuple[bytes, bytes]:
        """NTLMv2 and LMv2; a server that sends its time gets a MIC and no LMv2 (3.1.5.1.2)."""
        server, client = challenge.server_challenge, self._client_challenge
        attributes = messages.unpack_attributes(challenge.target_info or bytes(4))
        filetime = self._filetime
        stamp = attributes.get(messages.AV_TIMESTAMP, b"")
        if len(stamp) == 8:
            filetime = int.from_bytes(stamp, "little")
            flags = int.from_bytes(attributes.get(messages.AV_FLAGS, b""), "little")
            flags |= messages.AV_FLAG_MIC
            attributes[messages.AV_FLAGS] = (flags & 0xFFFF_FFFF).to_bytes(4, "little")
            self.has_mic = True
        attributes[messages.AV_CHANNEL_BINDINGS] = bytes(16)
        attributes[messages.AV_TARGET_NAME] = f"host/{self._host}".encode("utf-16-le")
        info = messages.pack_attributes(attributes)
        response = make_response(key, server, client, filetime, info)
        lm_response = bytes(24) if self.has_mic else hmac_md5(key, server + client) + client
        return response, lm_response


def _initiators(exported: bytes) -> tuple[DirectionKeys, DirectionKeys]:
    return client_keys(exported), server_keys(exported)
