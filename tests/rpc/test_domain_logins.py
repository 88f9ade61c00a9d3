"""NTLM of domain users: who is asked, and what waits for the answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from posthouse.rpc import pdu
from posthouse.rpc.domain_logins import DomainProof, DomainQuestion, DomainVerdict
from posthouse.rpc.ntlm.authentication import NtlmAcceptor
from posthouse.rpc.ntlm.keys import response_key, session_base_key
from posthouse.rpc.ntlm.messages import unpack_authenticate
from posthouse.rpc.pac import DomainUser
from posthouse.rpc.protection import Protection
from posthouse.rpc.security import (
    NTLM,
    SPNEGO,
    Identity,
    Level,
    LoginRefused,
    SecurityContext,
    VerdictNeeded,
)
from posthouse.rpc.spnego import Make, SpnegoAcceptor, SpnegoInitiator
from posthouse.rpc.spnego_tokens import NTLM_OID
from posthouse.security.nt_hash import nt_hash
from posthouse.security.sids import make_sid

from .login_book import FILETIME, NAMES, PASSWORD, SERVER_CHALLENGE, LoginBook, initiator
from .toy import ECHO, item
from .toy import Desk as RpcDesk

ALICE = DomainUser("alice", "CORP", make_sid(5, 21, 1, 2, 3, 1102), (make_sid(5, 21, 1, 2, 3, 9),))
KEY = b"k" * 16


class Domain:
    """A DomainDesk that keeps its questions."""

    def __init__(self, *, takes: bool = True) -> None:
        self.questions: list[DomainQuestion] = []
        self.told: list[str] = []
        self.identity: Identity | None = Identity("CORP\\alice", "CORP", "ntlm")
        self._takes = takes
        self._answered: list[Callable[[DomainVerdict], None]] = []

    def takes(self, user: str, domain: str) -> bool:
        return self._takes

    def ask(self, question: DomainQuestion, answered: Callable[[DomainVerdict], None]) -> None:
        self.questions.append(question)
        self._answered.append(answered)

    def answer(self, verdict: DomainVerdict) -> None:
        self._answered.pop()(verdict)

    def vouched(self, user: str, domain: DomainUser) -> Identity | None:
        return self.identity

    def refused(self, user: str, cause: str) -> None:
        self.told.append(cause)


class Exchange:
    """An NTLM login whose user is not known here, up to the question."""

    def __init__(self, domain: Domain, user: str = "stranger") -> None:
        self.book, self.domain = LoginBook(), domain
        self.server = NtlmAcceptor(self.book, NAMES, SERVER_CHALLENGE, FILETIME, domain)
        self.client = initiator(user, PASSWORD, "CORP")
        challenge = self.server.step(self.client.step(b"") or b"")
        self.token = self.client.step(challenge or b"") or b""
        self.calls = 0

    def key(self) -> bytes:
        """What the domain controller computes."""
        message = unpack_authenticate(self.token)
        key = response_key(nt_hash(PASSWORD), message.user, message.domain)
        return session_base_key(key, message.nt_response)

    def begin(self) -> None:
        with pytest.raises(VerdictNeeded) as needed:
            self.server.step(self.token)
        needed.value.begin(self._told)

    def _told(self) -> None:
        self.calls += 1


def test_the_domain_is_asked_and_both_ends_have_its_key() -> None:
    exchange = Exchange(Domain())
    exchange.begin()
    (asked,) = exchange.domain.questions
    assert (asked.user, asked.domain, asked.challenge) == ("stranger", "CORP", SERVER_CHALLENGE)
    assert "response" not in repr(asked)
    assert not exchange.server.complete
    exchange.domain.answer(DomainVerdict(DomainProof(ALICE, exchange.key())))
    assert exchange.calls == 1
    assert exchange.server.step(exchange.token) is None
    assert exchange.server.complete
    assert exchange.server.identity == exchange.domain.identity
    exchange.server.verify(b"list", exchange.client.sign(b"list"))
    assert exchange.book.told == []


def test_a_key_that_does_not_fit_the_messages_is_refused() -> None:
    exchange = Exchange(Domain())
    exchange.begin()
    exchange.domain.answer(DomainVerdict(DomainProof(ALICE, KEY)))
    with pytest.raises(LoginRefused):
        exchange.server.step(exchange.token)
    assert not exchange.server.complete


def test_what_the_domain_refuses_is_over_and_told_with_its_reason() -> None:
    exchange = Exchange(Domain())
    exchange.begin()
    exchange.domain.answer(DomainVerdict(None, "NT_STATUS_WRONG_PASSWORD"))
    for _ in range(2):
        with pytest.raises(LoginRefused):
            exchange.server.step(exchange.token)
    assert exchange.domain.told == ["NT_STATUS_WRONG_PASSWORD"]
    assert exchange.book.told == []


def test_whom_the_accounts_do_not_let_in_is_refused() -> None:
    exchange = Exchange(Domain())
    exchange.domain.identity = None
    exchange.begin()
    exchange.domain.answer(DomainVerdict(DomainProof(ALICE, exchange.key())))
    with pytest.raises(LoginRefused):
        exchange.server.step(exchange.token)
    assert not exchange.server.complete


def test_an_account_here_goes_first_and_users_of_this_machine_are_not_asked_for() -> None:
    known = Exchange(Domain(), "Alice")
    assert known.server.step(known.token) is None
    assert known.domain.questions == []
    stranger = Exchange(Domain(takes=False))
    with pytest.raises(LoginRefused):
        stranger.server.step(stranger.token)
    assert stranger.book.told == ["refused stranger"]


# -- on a connection


class DomainAccounts:
    """An Authenticator that asks a domain about users whom it does not know."""

    def __init__(self) -> None:
        self.domain = Domain()

    def acceptor(self, auth_type: int, address: str) -> SecurityContext | None:
        def make() -> NtlmAcceptor:
            return NtlmAcceptor(LoginBook(), NAMES, SERVER_CHALLENGE, FILETIME, self.domain)

        return make() if auth_type == NTLM else SpnegoAcceptor({NTLM_OID: make})


class Caller:
    """A client of a domain user, up to the question."""

    def __init__(self, auth_type: int = NTLM) -> None:
        self.accounts = DomainAccounts()
        self.desk = RpcDesk(authenticator=self.accounts)
        self.wire = self.desk.connect()
        self.inner = initiator("stranger", PASSWORD, "CORP")
        makes: dict[bytes, Make] = {NTLM_OID: lambda: self.inner}
        self.outer = self.inner if auth_type == NTLM else SpnegoInitiator(makes)
        self.auth_type = auth_type
        self.wire.bind(item(0), trailer=self.trailer(self.outer.step(b"") or b""))
        assert self.wire.trailer is not None
        self.token = self.outer.step(self.wire.trailer.token) or b""
        self.protection = Protection(self.outer, auth_type, Level.PRIVACY, 3)

    def trailer(self, token: bytes) -> pdu.Trailer:
        return pdu.Trailer(self.auth_type, Level.PRIVACY, 0, 3, token)

    def request(self, stub: bytes) -> bytes:
        head = pdu.pack_request(0, ECHO, b"", alloc_hint=len(stub))
        return self.protection.pack(pdu.REQUEST, pdu.WHOLE, 7, head, stub)

    def auth3(self) -> bytes:
        return pdu.pack(pdu.AUTH3, pdu.WHOLE, 1, bytes(4), self.trailer(self.token))

    def alter(self) -> bytes:
        body = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (item(0),)))
        return pdu.pack(pdu.ALTER_CONTEXT, pdu.WHOLE, 2, body, self.trailer(self.token))

    def answer(self, *, good: bool = True) -> None:
        (asked,) = self.accounts.domain.questions
        key = response_key(nt_hash(PASSWORD), asked.user, asked.domain)
        proof = DomainProof(ALICE, session_base_key(key, asked.response))
        self.accounts.domain.answer(DomainVerdict(proof if good else None, "" if good else "no"))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("good", [False, True])
def test_calls_wait_for_the_verdict(good: bool, together: bool) -> None:
    caller = Caller()
    said = [caller.auth3(), caller.request(b"hello")]
    if together:
        assert caller.wire.say(b"".join(said)) == []
    else:
        assert [caller.wire.say(one) for one in said] == [[], []]
    assert caller.wire.connection.is_asking
    caller.answer(good=good)
    ((header, whole),) = caller.wire.heard()
    if good:
        assert caller.protection.unpack(whole, header.auth_length) == b"hello"
    else:
        assert header.kind == pdu.FAULT
        assert caller.desk.toy.served == []
    assert not caller.wire.connection.is_asking


def test_inside_spnego_the_answer_waits() -> None:
    caller = Caller(SPNEGO)
    assert caller.wire.say(caller.alter()) == []
    caller.answer()
    ((header, whole),) = caller.wire.heard()
    assert header.kind == pdu.ALTER_CONTEXT_RESP
    _, trailer = pdu.body_of(whole, header)
    assert trailer is not None
    caller.outer.step(trailer.token)
    assert caller.outer.complete
    ((header, whole),) = caller.wire.say(caller.request(b"hello"))
    assert caller.protection.unpack(whole, header.auth_length) == b"hello"


def test_a_client_that_is_gone_needs_no_verdict() -> None:
    caller = Caller()
    caller.wire.say(caller.auth3(), caller.request(b"hello"))
    caller.wire.connection.lost()
    caller.answer()
    assert caller.wire.heard() == []
    assert caller.desk.toy.served == []
    assert caller.desk.bugs == []


def test_a_client_that_reads_again_still_waits_for_the_verdict() -> None:
    caller = Caller()
    caller.wire.say(caller.auth3(), caller.request(b"hello"))
    caller.wire.connection.hold()
    caller.wire.connection.go_on()
    assert caller.wire.heard() == []
    caller.wire.connection.hold()
    caller.answer()
    assert caller.wire.heard() == []
    caller.wire.connection.go_on()
    assert len(caller.wire.heard()) == 1
