"""Accounts as records, and callers that go stale."""

from __future__ import annotations

import gc

import msgspec
import pytest

from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.model.errors import AccessDenied, IllegalUser
from posthouse.security.access import Caller
from posthouse.security.accounts import Account
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.rights import parse_rights
from posthouse.security.sids import ADMINISTRATORS
from tests.engine.rig import RECEIVE, SEND, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def add(rig: Rig, name: str, **values: object) -> Account:
    return rig.run(lambda m: m.accounts.add(name, **values))  # type: ignore[arg-type]


def granted_to(rig: Rig, name: str, rights: str) -> Caller:
    """A queue `orders` that this user may use."""
    caller = rig.manager.accounts.caller(name)
    queue = rig.create("orders")
    descriptor = unpack_descriptor(queue.definition.security)
    security = descriptor.grant(caller.sid, parse_rights(rights)).pack()
    rig.run(lambda m: m.queues.set_queue_security(r".\private$\orders", rig.admin, security))
    return caller


def test_accounts_outlive_a_restart_and_are_found_whatever_the_case(rig: Rig) -> None:
    account = add(rig, "Maria")
    rig.restart()
    assert rig.manager.accounts.find("MARIA") == account
    assert [a.name for a in rig.manager.accounts.all()] == ["Maria"]


def test_a_sid_is_never_given_again(rig: Rig) -> None:
    first = add(rig, "maria")
    rig.run(lambda m: m.accounts.remove("maria"))
    rig.restart()
    second = add(rig, "maria")
    assert second.sid != first.sid


def test_a_name_in_use_is_refused_and_nothing_changes(rig: Rig) -> None:
    add(rig, "maria")
    before = rig.manager.ledger.state.dump()
    with pytest.raises(IllegalUser, match="exists"):
        add(rig, "MARIA")
    with pytest.raises(IllegalUser):
        add(rig, "everyone")
    assert rig.manager.accounts.find("maria").name == "maria"
    # Only the counter of identities may have moved.
    assert len(rig.manager.ledger.state.dump()) == len(before)


def test_an_unknown_user_is_refused(rig: Rig) -> None:
    for call in (rig.manager.accounts.find, rig.manager.accounts.caller):
        with pytest.raises(IllegalUser, match="no user nobody"):
            call("nobody")


def test_an_account_without_rights_reads_nothing(rig: Rig) -> None:
    add(rig, "maria")
    add(rig, "otto")
    maria = granted_to(rig, "maria", "receive")
    rig.send("orders", b"one")
    assert rig.receive(rig.open("orders", RECEIVE, maria)).packet
    with pytest.raises(AccessDenied):
        rig.open("orders", RECEIVE, rig.manager.accounts.caller("otto"))


def test_an_administrator_account_may_do_everything(rig: Rig) -> None:
    add(rig, "root", groups=(ADMINISTRATORS,))
    caller = rig.manager.accounts.caller("root")
    rig.create("orders", caller)
    assert rig.open("orders", RECEIVE, caller).access is RECEIVE


def test_a_removed_account_loses_the_queues_it_has_open(rig: Rig) -> None:
    add(rig, "maria")
    maria = granted_to(rig, "maria", "receive")
    rig.send("orders", b"one")
    opened = rig.open("orders", RECEIVE, maria)
    rig.run(lambda m: m.accounts.remove("maria"))
    with pytest.raises(AccessDenied, match="log in again"):
        rig.receive(opened)
    assert rig.bodies("orders") == [b"one"]


def test_a_changed_account_must_log_in_again(rig: Rig) -> None:
    account = add(rig, "maria")
    maria = granted_to(rig, "maria", "peek")
    opened = rig.open("orders", RECEIVE, rig.admin)
    rig.run(lambda m: m.accounts.replace(msgspec.structs.replace(account, disabled=True)))
    with pytest.raises(AccessDenied):
        rig.open("orders", RECEIVE, maria)
    with pytest.raises(IllegalUser, match="disabled"):
        rig.manager.accounts.caller("maria")
    rig.send("orders", b"others go on")
    assert rig.receive(opened).packet


def test_the_identity_of_an_account_is_fixed(rig: Rig) -> None:
    account = add(rig, "maria")
    with pytest.raises(IllegalUser, match="identity"):
        rig.run(lambda m: m.accounts.replace(msgspec.structs.replace(account, rid=1)))


def narrowed(caller: Caller, pattern: str, rights: str) -> Caller:
    return caller.narrowed(((pattern, parse_rights(rights)),))


def test_a_removed_account_takes_its_tokens_along(rig: Rig) -> None:
    add(rig, "maria")
    token = narrowed(granted_to(rig, "maria", "full"), r".\private$\orders", "send")
    opened = rig.open("orders", SEND, token)
    rig.send(opened, b"while it lasts")
    rig.run(lambda m: m.accounts.remove("maria"))
    with pytest.raises(AccessDenied, match="log in again"):
        rig.send(opened, b"too late")
    assert rig.bodies("orders") == [b"while it lasts"]


def test_a_token_for_queues_here_reaches_no_other_computer(rig: Rig) -> None:
    token = narrowed(rig.admin, r".\private$\*", "full")
    with pytest.raises(AccessDenied, match="limited to queues of this computer"):
        rig.open(r"DIRECT=OS:beta\private$\orders", SEND, token)
    assert not rig.manager.queues.outgoing_queues()
    remote = rig.open(r"DIRECT=OS:beta\private$\orders", SEND)
    assert remote.target().outgoing
    with pytest.raises(AccessDenied):
        rig.open(r"DIRECT=OS:beta\private$\orders", QueueAccessType.PEEK_ADMIN, token)


def test_a_token_creates_only_queues_that_it_covers(rig: Rig) -> None:
    rig.create("sales.one", narrowed(rig.admin, r".\private$\sales.*", "full"))
    for token in (
        narrowed(rig.admin, r".\private$\sales.*", "full"),
        narrowed(rig.admin, r".\private$\*", "send"),
    ):
        with pytest.raises(AccessDenied, match="may not create"):
            rig.create("payroll", token)


def test_stale_callers_are_remembered_as_long_as_somebody_has_them(rig: Rig) -> None:
    account = add(rig, "maria")
    caller = granted_to(rig, "maria", "send")
    descriptor = rig.open("orders", SEND, caller)
    narrowed = caller.narrowed(None)
    for number in range(50):
        rig.manager.accounts.caller("maria")
        account = msgspec.structs.replace(account, created_s=number)
        rig.run(lambda m, a=account: m.accounts.replace(a))  # type: ignore[misc]
    assert len(rig.manager.ledger.stale_origins) == 1
    with rig.refused(AccessDenied.code, "log in again"):
        rig.send(descriptor, b"too late")
    del caller
    rig.close(descriptor)
    del descriptor
    gc.collect()
    with rig.refused(AccessDenied.code, "log in again"):
        rig.open("orders", SEND, narrowed)
    del narrowed
    rig.run(
        lambda m: m.queues.set_queue(r".\private$\orders", rig.admin, label="new")
    )  # a new guard
    gc.collect()
    assert len(rig.manager.ledger.stale_origins) == 0
