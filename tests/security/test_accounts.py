"""Accounts, tokens and the delay after failures."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalUser, InvalidParameter, RemoteProtocolError
from posthouse.model.roles import Role
from posthouse.security.accounts import (
    DEFAULT_COST,
    NO_PASSWORD,
    Account,
    Door,
    Failures,
    LoginGuard,
    ScryptCost,
    ScryptVerifier,
    Token,
    check_user_name,
    decode_account,
    decode_token,
    encode_record,
    login_delay_ms,
    make_verifier,
    parse_scopes,
    split_token,
    token_text,
    user_key,
)
from posthouse.security.rights import PEEK_MESSAGE, QUEUE_GENERIC_ALL, WRITE_MESSAGE
from posthouse.security.sids import ADMINISTRATORS, AUTHENTICATED_USERS, local_sid

from .strategies import sids

CHEAP = ScryptCost(n=16, r=1, p=1)
SALT = bytes(range(16))
SID = local_sid(bytes(16), 1000)
SECRET = bytes(range(32))


def account(**fields: object) -> Account:
    values = {"name": "Alice", "rid": 1000, "sid": SID, "http": make_verifier("pw", SALT, CHEAP)}
    return Account(**{**values, **fields})  # type: ignore[arg-type]


def token(**fields: object) -> Token:
    values = {"id": "00" * 8, "user": "alice", "secret_sha256": hashlib.sha256(SECRET).digest()}
    return Token(**{**values, **fields})  # type: ignore[arg-type]


def test_the_password_opens_and_no_other_does() -> None:
    verifier = make_verifier("grün", SALT, CHEAP)
    assert verifier.accepts("grün")
    assert verifier.accepts("gru\u0308n")
    for wrong in ("", "grun", "grün ", "x" * 2000):
        assert not verifier.accepts(wrong)


def test_a_verifier_is_plain_scrypt_with_its_own_parameters() -> None:
    verifier = make_verifier("pw", SALT, CHEAP)
    assert verifier.digest == hashlib.scrypt(b"pw", salt=SALT, n=16, r=1, p=1, dklen=32)


def test_the_default_cost_is_affordable_and_not_cheap() -> None:
    assert DEFAULT_COST.sound
    assert DEFAULT_COST.memory >= 32 << 20
    assert NO_PASSWORD.cost == DEFAULT_COST


@pytest.mark.parametrize(
    "cost",
    [ScryptCost(n=1000), ScryptCost(n=1), ScryptCost(n=1 << 40), ScryptCost(r=0), ScryptCost(p=0)],
)
def test_a_stored_cost_that_scrypt_cannot_take_accepts_nothing(cost: ScryptCost) -> None:
    assert not ScryptVerifier(cost, SALT, bytes(32)).accepts("pw")


@pytest.mark.parametrize("password", ["", "x" * 1025])
def test_empty_and_endless_passwords_are_refused(password: str) -> None:
    with pytest.raises(InvalidParameter):
        make_verifier(password, SALT, CHEAP)


def test_a_door_needs_to_be_given_and_to_have_a_verifier() -> None:
    assert account().opens(Door.HTTP)
    assert not account().opens(Door.RPC)
    assert not account(doors=(Door.HTTP, Door.RPC)).opens(Door.RPC)
    assert account(doors=(Door.RPC,), rpc=b"sealed").opens(Door.RPC)
    assert not account(doors=(Door.RPC,), rpc=b"sealed").opens(Door.HTTP)
    assert not account(disabled=True).opens(Door.HTTP)


def test_an_account_becomes_a_caller() -> None:
    caller = account().caller()
    assert (caller.sid, caller.name, caller.authenticated) == (SID, "Alice", True)
    assert AUTHENTICATED_USERS in caller.groups
    assert not caller.is_administrator
    assert account(groups=(ADMINISTRATORS,)).is_administrator
    assert account(groups=(ADMINISTRATORS,)).caller().is_administrator


@pytest.mark.parametrize(
    "name", ["", "a b", "a,b", "a\\b", "x" * 65, "Everyone", "USERS", "a\n", "S-1-1-0", "s-1-x"]
)
def test_names_that_mislead_are_refused(name: str) -> None:
    with pytest.raises(IllegalUser):
        check_user_name(name)
    with pytest.raises(IllegalUser):
        account(name=name).checked()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna", "aNNA"),
        ("Zo\u00eb", "Zoe\u0308"),
        ("\uff41\uff4e\uff4e\uff41", "anna"),
        ("stra\u00dfe", "STRASSE"),
        ("\ufb01n", "FIN"),
        ("\u017fam", "Sam"),
    ],
)
def test_names_that_look_alike_are_one_account(one: str, other: str) -> None:
    assert user_key(one) == user_key(other)


def test_what_is_too_long_for_a_name_is_not_normalised() -> None:
    """Marks are put in order in quadratic time: a stranger could stop the whole server so."""
    marks = "a" + "\u0300\u0316" * 50_000
    assert user_key(marks) is marks
    longest = "a\u0301" * 64
    assert user_key(longest) == "\u00e1" * 64


@given(st.text())
def test_the_key_of_a_key_is_the_key(name: str) -> None:
    assert user_key(user_key(name)) == user_key(name)


def test_nobody_gets_the_name_of_a_principal_in_another_width() -> None:
    with pytest.raises(IllegalUser, match="a reserved name"):
        check_user_name("\uff45\uff56\uff45\uff52\uff59\uff4f\uff4e\uff45")


def test_ordinary_names_are_accepted() -> None:
    for name in ("alice", "J.Müller", "svc-orders@corp", "用户"):
        assert account(name=name).checked().name == name
    assert account(name="ALICE").key == account(name="alice").key


def test_an_account_without_a_sid_is_refused() -> None:
    with pytest.raises(IllegalUser):
        account(sid=b"\x01").checked()
    with pytest.raises(IllegalUser):
        account(groups=(b"",)).checked()


accounts = st.builds(
    Account,
    name=st.text(max_size=10),
    rid=st.integers(0, 0xFFFFFFFF),
    sid=sids,
    groups=st.lists(sids, max_size=3).map(tuple),
    doors=st.lists(st.sampled_from(Door), max_size=3).map(tuple),
    http=st.one_of(
        st.none(),
        st.builds(ScryptVerifier, st.just(DEFAULT_COST), st.binary(), st.binary()),
    ),
    rpc=st.binary(max_size=20),
    ncp=st.binary(max_size=20),
    disabled=st.booleans(),
    created_s=st.integers(0, 1 << 40),
)
scopes = st.one_of(
    st.none(),
    st.lists(st.tuples(st.text(max_size=5), st.integers(0, QUEUE_GENERIC_ALL))).map(tuple),
)
tokens = st.builds(
    Token,
    id=st.text(max_size=16),
    user=st.text(max_size=10),
    role=st.sampled_from(Role),
    scopes=scopes,
    expires_s=st.one_of(st.none(), st.integers(0, 1 << 40)),
    secret_sha256=st.binary(max_size=32),
    created_s=st.integers(0, 1 << 40),
)


@given(accounts)
def test_accounts_survive_the_store(value: Account) -> None:
    assert decode_account(encode_record(value)) == value


@given(tokens)
def test_tokens_survive_the_store(value: Token) -> None:
    assert decode_token(encode_record(value)) == value


@given(
    st.one_of(
        st.binary(max_size=60), st.dictionaries(st.text(), st.text()).map(msgspec.msgpack.encode)
    )
)
def test_any_bytes_give_a_record_or_the_one_error(data: bytes) -> None:
    for decode in (decode_account, decode_token):
        try:
            decode(data)
        except RemoteProtocolError:
            continue
        assert decode(data) is not None


@given(accounts, st.integers(0, 500), st.integers(0, 255))
def test_damaged_records_give_a_value_or_the_one_error(value: Account, at: int, byte: int) -> None:
    data = bytearray(encode_record(value))
    data[at % len(data)] = byte
    try:
        read = decode_account(bytes(data))
    except RemoteProtocolError:
        return
    assert isinstance(read, Account)


def test_a_token_is_accepted_until_it_expires() -> None:
    limited = token(expires_s=100)
    assert limited.accepts(SECRET, 99)
    assert not limited.accepts(SECRET, 100)
    assert not limited.accepts(SECRET[:-1] + b"\0", 99)
    assert token().accepts(SECRET, 1 << 60)


def test_the_text_of_a_token_holds_id_and_secret() -> None:
    text = token_text(bytes(8), SECRET)
    assert split_token(f" {text}\n") == ("00" * 8, SECRET)


@given(st.text())
def test_any_other_text_is_no_token(text: str) -> None:
    assert split_token(text) is None


def test_a_token_narrows_its_user() -> None:
    limited = token(scopes=parse_scopes([r".\private$\orders=send"])).caller(account())
    assert limited.scope(r".\private$\orders") == WRITE_MESSAGE
    assert limited.scope(r".\private$\other") == 0
    assert token().caller(account()).scope("x") & PEEK_MESSAGE


def test_scopes_are_patterns_with_rights() -> None:
    assert parse_scopes([]) is None
    assert parse_scopes(["*=peek", r".\a"]) == (("*", PEEK_MESSAGE), ("a", QUEUE_GENERIC_ALL))
    for wrong in (["=send"], ["a=fly"], ["a=send"] * 300):
        with pytest.raises(InvalidParameter):
            parse_scopes(wrong)


def test_roles_include_the_smaller_ones() -> None:
    assert Role.ADMINISTER.includes(Role.OPERATE)
    assert Role.OPERATE.includes(Role.OPERATE)
    assert not Role.READ.includes(Role.OPERATE)


def test_the_delay_begins_after_five_failures_and_doubles() -> None:
    assert [login_delay_ms(n) for n in range(8)] == [0, 0, 0, 0, 0, 1000, 2000, 4000]
    assert login_delay_ms(1_000_000) == 900_000


@given(st.integers(0, 100))
def test_the_delay_never_shrinks(failures: int) -> None:
    assert login_delay_ms(failures) <= login_delay_ms(failures + 1)


def test_waiting_is_a_function_of_failures_and_time() -> None:
    failures = Failures(6, last_ms=10_000)
    assert failures.wait_ms(10_500) == 1_500
    assert failures.wait_ms(12_000) == 0
    assert Failures().wait_ms(0) == 0


def test_failures_count_per_account_and_address() -> None:
    guard = LoginGuard()
    for _ in range(5):
        guard.failed("Alice", "10.0.0.1", 1_000)
    assert guard.wait_ms("ALICE", "10.0.0.1", 1_000) == 1_000
    assert guard.wait_ms("alice", "10.0.0.2", 1_000) == 0
    assert guard.wait_ms("bob", "10.0.0.1", 1_000) == 0
    guard.succeeded("alice", "10.0.0.1")
    assert guard.wait_ms("alice", "10.0.0.1", 1_000) == 0


def test_the_table_of_failures_has_a_limit() -> None:
    guard = LoginGuard(entries_max=3)
    for number in range(10):
        for _ in range(5):
            guard.failed(f"user{number}", "::1", 0)
    assert guard.wait_ms("user9", "::1", 0) == 1_000
    assert guard.wait_ms("user6", "::1", 0) == 0


def test_no_name_is_kept_longer_than_a_name_can_be() -> None:
    guard = LoginGuard()
    for end in range(5):
        guard.failed("x" * 100_000 + str(end), "::1", 0)
    assert guard.wait_ms("x" * 65, "::1", 0) == 1_000
    assert guard.wait_ms("x" * 64, "::1", 0) == 0
