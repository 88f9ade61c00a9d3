"""The security providers of a server and of a client, and the accounts behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import msgspec
import pytest

from posthouse.engine.accounts.logins import Logins
from posthouse.rpc.ntlm.authentication import NtlmAcceptor, NtlmInitiator, ServerNames
from posthouse.rpc.providers import MECHANISMS, Acceptors, auth_type_of, initiator
from posthouse.rpc.security import Authenticator, Identity, LoginRefused, SecurityContext
from posthouse.rpc.spnego import SpnegoAcceptor, SpnegoInitiator
from posthouse.security.accounts import Account, Door
from posthouse.security.nt_hash import nt_hash
from tests.engine.rig import Rig

HERE, THERE = "192.0.2.1", "192.0.2.2"
FILETIME = 0x01DD_0000_0000_0000


class ServerRig(Rig):
    """A queue manager with accounts, and what its clients meet."""

    def __init__(self) -> None:
        super().__init__()
        self.clock_ms = 0
        self.numbers: Iterator[int] = count(1)
        self.manager.certificates.key_file = lambda: b"s" * 32
        self.logins = Logins(self.manager.accounts, lambda: self.clock_ms)
        self.acceptors: Authenticator = Acceptors(
            self.logins, ServerNames("alpha"), self.random_bytes, lambda: FILETIME
        )

    def random_bytes(self, size: int) -> bytes:
        return next(self.numbers).to_bytes(size, "little")

    def add(self, name: str, password: str, *doors: Door) -> Account:
        hashed = nt_hash(password)
        return self.run(lambda m: m.accounts.add(name, doors=doors or (Door.RPC,), nt_hash=hashed))

    def client(self, mechanism: str, user: str, password: str) -> SecurityContext:
        return initiator(
            mechanism, user, password, "alpha", random_bytes=self.random_bytes, filetime=FILETIME
        )

    def log_in(
        self, user: str, password: str, address: str = HERE, mechanism: str = "ntlm"
    ) -> Identity | None:
        client = self.client(mechanism, user, password)
        server = self.acceptors.acceptor(auth_type_of(mechanism), address)
        assert server is not None
        token: bytes | None = b""
        while not server.complete:
            token = server.step(client.step(token or b"") or b"")
        return server.identity


@pytest.fixture
def rig() -> ServerRig:
    return ServerRig()


PROVIDERS = [("ntlm", NtlmAcceptor, NtlmInitiator), ("negotiate", SpnegoAcceptor, SpnegoInitiator)]


@pytest.mark.parametrize(("mechanism", "accepts", "initiates"), PROVIDERS)
def test_each_mechanism_has_its_provider(
    rig: ServerRig, mechanism: str, accepts: type, initiates: type
) -> None:
    assert isinstance(rig.acceptors.acceptor(MECHANISMS[mechanism], HERE), accepts)
    assert isinstance(rig.client(mechanism, "alice", "secret"), initiates)


def test_others_are_not_to_be_had(rig: ServerRig) -> None:
    for auth_type in (0, 1, 14, 68, 255):
        assert rig.acceptors.acceptor(auth_type, HERE) is None
    with pytest.raises(ValueError, match="digest"):
        auth_type_of("digest")
    with pytest.raises(ValueError, match="digest"):
        rig.client("digest", "alice", "secret")


@pytest.mark.parametrize("mechanism", ["ntlm", "negotiate"])
@pytest.mark.parametrize("user", ["alice", r"WORK\ALICE", r"alpha\Alice"])
def test_who_logs_in_is_the_account(rig: ServerRig, mechanism: str, user: str) -> None:
    account = rig.add("Alice", "secret")
    identity = rig.log_in(user, "secret", mechanism=mechanism)
    assert identity == Identity("Alice", "ALPHA", "ntlm", account.sid)
    assert rig.logins.caller(identity.account).sid == account.sid


def causes(attempts: list[Callable[[], object]]) -> set[str]:
    found = set()
    for attempt in attempts:
        with pytest.raises(LoginRefused) as caught:
            attempt()
        found.add(str(caught.value))
    return found


def test_whoever_may_not_come_in_hears_the_same(rig: ServerRig) -> None:
    """Everybody is heard; a wrong password, an unknown name, a shut door, a disabled account."""
    rig.add("alice", "secret")
    rig.add("bob", "secret", Door.HTTP)
    carol = rig.add("carol", "secret")
    rig.run(lambda m: m.accounts.replace(_disabled(carol)))
    names = ["alice", "bob", "carol", "nobody", "x" * 500]
    attempts = [lambda name=name: rig.log_in(name, "Secret") for name in names]
    attempts += [lambda name=name: rig.log_in(name, "secret") for name in names[1:]]
    assert len(causes(attempts)) == 1
    assert rig.logins.refusals == len(attempts)


def _disabled(account: Account) -> Account:
    return msgspec.structs.replace(account, disabled=True)


def test_after_five_wrong_passwords_the_right_one_has_to_wait(rig: ServerRig) -> None:
    rig.add("alice", "secret")
    wrong = causes([lambda: rig.log_in("alice", "wrong") for _ in range(5)])
    assert causes([lambda: rig.log_in("alice", "secret")]) == wrong  # nothing tells that it waits
    assert rig.log_in("alice", "secret", THERE)
    rig.clock_ms += 1_000
    assert rig.log_in("alice", "secret")


def test_challenges_are_never_the_same(rig: ServerRig) -> None:
    first = rig.client("ntlm", "alice", "secret").step(b"") or b""
    challenges = set()
    for _ in range(10):
        server = rig.acceptors.acceptor(MECHANISMS["ntlm"], HERE)
        assert server is not None
        challenges.add(server.step(first))
    assert len(challenges) == 10


def test_no_password_is_told(rig: ServerRig) -> None:
    told: list[object] = []
    rig.logins.told = lambda *refusal: told.append(refusal)
    rig.add("alice", "secret")
    causes([lambda: rig.log_in("alice", "hunter2")])
    assert told == [("alice", HERE, "wrong name or password")]
