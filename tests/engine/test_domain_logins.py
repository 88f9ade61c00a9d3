"""Users of a domain: what their groups give them, and what a refused login is told as."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from posthouse.engine.accounts.logins import Logins
from posthouse.model.errors import AccessDenied
from posthouse.protocols.rpc_callers import caller_of
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.rpc.pac import DomainUser
from posthouse.rpc.providers import Attempt
from posthouse.security.access import Caller
from posthouse.security.accounts import Door
from posthouse.security.rights import PEEK_MESSAGE, RECEIVE_MESSAGE
from posthouse.security.sids import ADMINISTRATORS, make_sid
from tests.engine.letters import PostRig
from tests.engine.rig import RECEIVE

DOMAIN = make_sid(5, 21, 1, 2, 3)
CLERKS = make_sid(5, 21, 1, 2, 3, 1103)
ALICE = DomainUser("alice", "POSTHOUSE", make_sid(5, 21, 1, 2, 3, 1102), (CLERKS,))


class Rig(PostRig):
    def __init__(self, *, domain_users: bool = False) -> None:
        super().__init__()
        self.logins = Logins(self.manager.accounts, lambda: 0)
        self.logins.takes_domain_users = domain_users
        self.told: list[str] = []
        self.logins.told = lambda user, address, cause: self.told.append(cause)
        self.attempt = Attempt(self.logins, ServerNames("ALPHA"), "192.0.2.7")

    def caller(self, domain: DomainUser | None = ALICE, user: str = "alice") -> Caller:
        identity = self.attempt.vouched(user, domain)
        assert identity is not None
        return caller_of(self.logins, SimpleNamespace(identity=identity))  # type: ignore[arg-type]

    def add(self, name: str, *doors: Door) -> Any:
        return self.run(lambda m: m.accounts.add(name, doors=frozenset(doors)))


def test_a_user_of_the_domain_without_an_account_is_known_by_its_sid() -> None:
    caller = Rig(domain_users=True).caller()
    assert (caller.sid, caller.name) == (ALICE.sid, r"POSTHOUSE\alice")
    assert caller.authenticated
    assert not caller.is_administrator
    assert {ALICE.sid, CLERKS} <= caller.groups


def test_without_the_setting_or_a_signed_ticket_an_account_is_needed() -> None:
    assert Rig().attempt.vouched("alice", ALICE) is None
    assert Rig(domain_users=True).attempt.vouched("alice", None) is None


def test_an_account_has_the_groups_of_the_domain_too() -> None:
    rig = Rig()
    account = rig.add("alice", Door.RPC)
    caller = rig.caller()
    assert caller.sid == account.sid
    assert {account.sid, ALICE.sid, CLERKS} <= caller.groups
    assert rig.caller(None).groups.isdisjoint({ALICE.sid, CLERKS})


def test_a_closed_account_is_not_passed_by() -> None:
    rig = Rig(domain_users=True)
    rig.add("alice")
    assert rig.attempt.vouched("alice", ALICE) is None
    assert rig.told == ["no account for this user of Kerberos"]


def test_a_closed_account_is_not_passed_by_under_another_name() -> None:
    """The ticket names them by their principal name, the domain by the name of the account."""
    rig = Rig(domain_users=True)
    rig.add("alice")
    assert rig.attempt.vouched("alice.smith", ALICE) is None


@pytest.mark.parametrize("name", ["alice", "ALICE.Smith"])
def test_an_account_that_is_made_later_ends_what_a_domain_user_has_open(name: str) -> None:
    """An account decides for its user, under whichever name: this is how one is shut out."""
    rig = Rig(domain_users=True)
    rig.create("orders")
    rig.grant("orders", ALICE.sid, RECEIVE_MESSAGE | PEEK_MESSAGE)
    identity = rig.attempt.vouched("alice.smith", ALICE)
    call = SimpleNamespace(identity=identity)
    caller = caller_of(rig.logins, call)  # type: ignore[arg-type]
    opened = rig.open("orders", RECEIVE, caller)
    answers = rig.wait(opened, timeout_ms=10_000)
    rig.add("bob")
    assert caller_of(rig.logins, call).origin is caller.origin  # type: ignore[arg-type]
    rig.add(name)
    with pytest.raises(AccessDenied):
        caller_of(rig.logins, call)  # type: ignore[arg-type]
    with pytest.raises(AccessDenied, match="log in again"):
        rig.peek(opened)
    rig.send("orders", b"too late")
    assert [type(answer.error) for answer in answers] == [AccessDenied]
    assert rig.bodies("orders") == [b"too late"]


def test_no_group_of_a_domain_makes_an_administrator() -> None:
    plain = Caller.user(ALICE.sid, "alice")
    assert not plain.with_groups([ADMINISTRATORS]).is_administrator
    assert ADMINISTRATORS not in plain.with_groups([ADMINISTRATORS, CLERKS]).groups
    assert plain.with_groups([]) is plain
    assert Caller.administrator().with_groups([CLERKS]).is_administrator


def test_an_account_that_lost_its_door_gives_no_caller() -> None:
    rig = Rig()
    rig.add("alice", Door.RPC)
    identity = rig.attempt.vouched("alice", ALICE)
    rig.run(lambda m: m.accounts.remove("alice"))
    with pytest.raises(AccessDenied):
        caller_of(rig.logins, SimpleNamespace(identity=identity))  # type: ignore[arg-type]


def test_ntlm_of_a_domain_user_is_refused_with_a_remedy_in_the_log() -> None:
    rig = Rig(domain_users=True)
    rig.attempt.refused("alice")
    assert "through winbind ([rpc] winbind)" in rig.told[0]
    rig.add("alice", Door.RPC)
    rig.attempt.refused("alice")
    assert rig.told[1] == "wrong name or password"
