"""Who may log in at the rpc door, and how often they may try."""

from __future__ import annotations

import msgspec
import pytest

from posthouse.engine.accounts.logins import Logins
from posthouse.model.errors import CorruptedSecurityData, IllegalUser
from posthouse.security.accounts import Account, Door, encode_record
from posthouse.security.nt_hash import nt_hash
from tests.engine.rig import Rig

HERE, THERE = "192.0.2.1", "192.0.2.2"
HASH = nt_hash("secret")


class LoginRig(Rig):
    """A queue manager with a key file, and a clock for those who guess."""

    def __init__(self) -> None:
        super().__init__()
        self.clock_ms = 1_000_000
        self.told: list[tuple[str, str, str]] = []
        self.set_key_file(b"s" * 32)

    def set_key_file(self, key: bytes) -> None:
        self.manager.certificates.key_file = lambda: key
        self.logins = Logins(self.manager.accounts, lambda: self.clock_ms)
        self.logins.told = lambda *refusal: self.told.append(refusal)

    def add(self, name: str, *doors: Door, **values: object) -> Account:
        wanted = {"doors": doors or (Door.RPC,), "nt_hash": HASH, **values}
        return self.run(lambda m: m.accounts.add(name, **wanted))  # type: ignore[arg-type]

    def change(self, name: str, **values: object) -> None:
        account = msgspec.structs.replace(self.manager.accounts.find(name), **values)
        self.run(lambda m: m.accounts.replace(account))


@pytest.fixture
def rig() -> LoginRig:
    return LoginRig()


def test_a_verifier_comes_back_whatever_the_case_of_the_name(rig: LoginRig) -> None:
    rig.add("Maria")
    assert rig.logins.nt_hash("MARIA", HERE) == HASH
    assert rig.logins.accepted("maria", HERE).name == "Maria"


def test_a_verifier_outlives_a_restart_and_is_never_in_the_clear(rig: LoginRig) -> None:
    account = rig.add("maria")
    assert HASH not in encode_record(account)
    rig.restart()
    rig.set_key_file(b"s" * 32)
    assert rig.logins.nt_hash("maria", HERE) == HASH
    assert HASH not in rig.manager.ledger.state.dump()


def test_the_same_password_is_sealed_differently_each_time(rig: LoginRig) -> None:
    assert rig.add("maria").rpc != rig.add("mario").rpc


@pytest.mark.parametrize(
    "values", [{"doors": (Door.HTTP,)}, {"nt_hash": None}, {"doors": (), "nt_hash": None}]
)
def test_who_has_no_door_or_no_verifier_has_no_hash(
    rig: LoginRig, values: dict[str, object]
) -> None:
    assert rig.add("maria", **values).rpc == b""
    assert rig.logins.nt_hash("maria", HERE) is None


def test_the_disabled_and_the_unknown_have_no_hash(rig: LoginRig) -> None:
    rig.add("maria")
    rig.change("maria", disabled=True)
    for name in ("maria", "nobody", "", "\x1b[2J", "x" * 10_000, "\ud800"):
        assert rig.logins.nt_hash(name, HERE) is None
        assert rig.logins.vouched(name) is None


def damaged_key_file() -> bytes:
    raise CorruptedSecurityData("the key file is damaged")


def test_verifiers_need_a_key_file(rig: LoginRig) -> None:
    rig.manager.certificates.key_file = damaged_key_file
    with pytest.raises(CorruptedSecurityData):
        rig.add("maria")
    assert rig.manager.accounts.all() == []


def test_with_another_key_file_nobody_logs_in_and_the_operator_is_told(rig: LoginRig) -> None:
    rig.add("maria")
    rig.set_key_file(b"another key file of 32 octets...")
    assert rig.logins.nt_hash("maria", HERE) is None
    assert [(user, "key file" in cause) for user, _, cause in rig.told] == [("maria", True)]


def test_after_five_failures_a_growing_wait_for_that_name_at_that_address(rig: LoginRig) -> None:
    rig.add("maria")
    for _ in range(5):
        assert rig.logins.nt_hash("maria", HERE) == HASH
        rig.logins.refused("Maria", HERE, "wrong")
    waits = []
    for _ in range(4):
        waits.append(rig.logins.wait_ms("maria", HERE))
        assert rig.logins.nt_hash("maria", HERE) is None
        assert rig.logins.nt_hash("maria", THERE) == HASH
        rig.clock_ms += waits[-1]
        assert rig.logins.nt_hash("maria", HERE) == HASH
        rig.logins.refused("maria", HERE, "wrong")
    assert waits == [1_000, 2_000, 4_000, 8_000]
    assert rig.logins.refusals == 9


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("somewhere", "elsewhere", False),
    ],
)
def test_addresses_of_one_ipv6_network_wait_together(
    rig: LoginRig, first: str, second: str, same: bool
) -> None:
    rig.add("maria")
    for _ in range(5):
        rig.logins.refused("maria", first, "wrong")
    assert rig.logins.wait_ms("maria", first) == 1_000
    assert rig.logins.wait_ms("maria", second) == (1_000 if same else 0)


def test_names_that_do_not_exist_wait_as_well(rig: LoginRig) -> None:
    for _ in range(5):
        rig.logins.refused("nobody", HERE, "wrong")
    assert rig.logins.wait_ms("nobody", HERE) == 1_000


def test_nobody_is_forgotten_for_names_that_were_made_up(rig: LoginRig) -> None:
    rig.add("maria")
    for _ in range(5):
        rig.logins.refused("maria", HERE, "wrong")
    for number in range(10_000):
        rig.logins.refused(f"stranger{number}", HERE, "wrong")
    assert rig.logins.wait_ms("maria", HERE) == 1_000
    assert rig.logins.wait_ms("maria", THERE) == 0


def test_long_names_are_told_in_short(rig: LoginRig) -> None:
    rig.logins.refused("x" * 30_000, HERE, "wrong")
    assert rig.told == [("x" * 80, HERE, "wrong")]


def test_tries_during_the_wait_do_not_make_it_longer(rig: LoginRig) -> None:
    for _ in range(5):
        rig.logins.refused("maria", HERE, "wrong")
    rig.clock_ms += 999
    rig.logins.refused("maria", HERE, "too early")
    rig.clock_ms += 1
    assert rig.logins.wait_ms("maria", HERE) == 0
    assert rig.told[-1] == ("maria", HERE, "too early")


def test_the_right_password_ends_the_count(rig: LoginRig) -> None:
    rig.add("maria")
    for _ in range(4):
        rig.logins.refused("maria", HERE, "wrong")
    rig.logins.accepted("maria", HERE)
    rig.logins.refused("maria", HERE, "wrong")
    assert rig.logins.wait_ms("maria", HERE) == 0


def test_a_login_is_worth_what_the_account_is_now(rig: LoginRig) -> None:
    sid = rig.add("maria").sid
    assert rig.logins.caller(sid).name == "maria"
    rig.change("maria", disabled=True)
    with pytest.raises(IllegalUser):
        rig.logins.caller(sid)
    rig.change("maria", disabled=False, doors=(Door.HTTP,))
    with pytest.raises(IllegalUser):
        rig.logins.caller(sid)
    rig.change("maria", doors=(Door.RPC,))
    assert rig.logins.caller(sid).sid == sid


def test_a_new_account_of_the_same_name_is_another(rig: LoginRig) -> None:
    sid = rig.add("maria").sid
    rig.run(lambda m: m.accounts.remove("maria"))
    rig.add("maria")
    with pytest.raises(IllegalUser):
        rig.logins.caller(sid)


def test_who_is_vouched_for_needs_the_door_and_no_password(rig: LoginRig) -> None:
    account = rig.add("maria", nt_hash=None)
    assert rig.logins.vouched("MARIA") == ("maria", account.sid)
    rig.add("mario", Door.HTTP)
    assert rig.logins.vouched("mario") is None
    assert rig.logins.vouched("\uff4daria") is None, "somebody else in the realm"


def test_a_changed_password_and_a_lost_door_leave_nothing_behind(rig: LoginRig) -> None:
    account = rig.add("maria")
    other = rig.run(lambda m: m.accounts.with_nt_hash(account, nt_hash("other")))
    rig.run(lambda m: m.accounts.replace(other))
    assert rig.logins.nt_hash("maria", HERE) == nt_hash("other")
    shut = msgspec.structs.replace(other, doors=())
    assert rig.manager.accounts.with_nt_hash(shut, HASH).rpc == b""
    assert rig.manager.accounts.with_nt_hash(other, None).rpc == b""
