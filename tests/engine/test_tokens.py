"""Access tokens: who they stand for, and when they end."""

from __future__ import annotations

import pytest

from posthouse.engine.accounts import tokens as tokens_module
from posthouse.engine.accounts.tokens import ADMINISTRATOR, Tokens
from posthouse.model.errors import AccessDenied, IllegalUser, InsufficientResources
from posthouse.model.roles import Role
from posthouse.security.rights import PEEK_MESSAGE
from tests.engine.rig import START_UTC, Rig

NOW = START_UTC


def tokens_of(rig: Rig) -> Tokens:
    return Tokens(rig.manager.ledger, rig.manager.accounts)


def test_a_token_stands_for_its_user() -> None:
    rig = Rig()
    rig.run(lambda m: m.accounts.add("Bob"))
    tokens = tokens_of(rig)
    token, text = rig.run(lambda m: tokens.create("bob", role=Role.OPERATE))
    granted = tokens.authenticate(text, NOW)
    assert (granted.caller.name, granted.role, granted.token) == ("Bob", Role.OPERATE, token)
    assert granted.caller.sid == rig.manager.accounts.find("bob").sid
    assert text.encode() not in rig.manager.ledger.state.dump()
    assert token.user == "Bob"


def test_without_a_user_it_is_the_administrators() -> None:
    rig = Rig()
    tokens = tokens_of(rig)
    _, text = rig.run(lambda m: tokens.create())
    granted = tokens.authenticate(text, NOW)
    assert granted.caller.is_administrator
    assert granted.token.user == ADMINISTRATOR
    assert granted.role is Role.READ


def test_tokens_of_services_end_with_every_start() -> None:
    rig = Rig()
    tokens = tokens_of(rig)
    token, text = rig.run(lambda m: tokens.create(of_service=True))
    assert tokens.authenticate(text, NOW).token == token
    rig.restart()
    tokens = tokens_of(rig)
    with pytest.raises(AccessDenied):
        tokens.authenticate(text, NOW)
    rig.run(lambda m: tokens.create())
    assert token.id.encode() not in rig.manager.ledger.state.dump()


def test_tokens_outlive_a_restart() -> None:
    rig = Rig()
    tokens = tokens_of(rig)
    _, text = rig.run(lambda m: tokens.create(role=Role.ADMINISTER))
    _, gone = rig.run(lambda m: tokens.create())
    rig.run(lambda m: tokens.remove(tokens.authenticate(gone, NOW).token.id))
    rig.restart()
    tokens = tokens_of(rig)
    assert tokens.authenticate(text, NOW).role is Role.ADMINISTER
    assert len(tokens.all()) == 1
    with pytest.raises(AccessDenied):
        tokens.authenticate(gone, NOW)


@pytest.mark.parametrize("change", ["id", "secret", "mark", "nothing", "case"])
def test_any_other_text_is_refused(change: str) -> None:
    rig = Rig()
    tokens = tokens_of(rig)
    _, text = rig.run(lambda m: tokens.create())
    mark, token_id, secret = text.split("_")
    wrong = {
        "id": f"{mark}_{'0' * 16}_{secret}",
        "secret": f"{mark}_{token_id}_{'0' * 64}",
        "mark": f"xyz_{token_id}_{secret}",
        "nothing": "",
        "case": text.upper(),
    }[change]
    with pytest.raises(AccessDenied) as refused:
        tokens.authenticate(wrong, NOW)
    assert refused.value.cause == "the token is unknown, revoked or expired"


def test_a_token_ends_with_its_time() -> None:
    rig = Rig()
    tokens = tokens_of(rig)
    _, text = rig.run(lambda m: tokens.create(expires_s=NOW + 10))
    assert tokens.authenticate(text, NOW + 9)
    with pytest.raises(AccessDenied):
        tokens.authenticate(text, NOW + 10)


def test_a_token_ends_with_its_user_and_the_next_does_not_inherit_it() -> None:
    rig = Rig()
    rig.run(lambda m: m.accounts.add("bob"))
    tokens = tokens_of(rig)
    token, text = rig.run(lambda m: tokens.create("bob"))
    _, other = rig.run(lambda m: tokens.create())
    assert rig.run(lambda m: tokens.remove_of("BOB")) == [token.id, "password of bob"]
    rig.run(lambda m: m.accounts.remove("bob"))
    rig.run(lambda m: m.accounts.add("bob"))
    with pytest.raises(AccessDenied):
        tokens.authenticate(text, NOW)
    assert tokens.authenticate(other, NOW)


def test_tokens_of_disabled_and_missing_users_are_refused() -> None:
    rig = Rig()
    account = rig.run(lambda m: m.accounts.add("bob"))
    tokens = tokens_of(rig)
    _, text = rig.run(lambda m: tokens.create("bob"))
    rig.run(lambda m: m.accounts.replace(type(account)(**{**_fields(account), "disabled": True})))
    with pytest.raises(AccessDenied):
        tokens.authenticate(text, NOW)
    with pytest.raises(IllegalUser):
        tokens.create("nobody")


def _fields(account: object) -> dict[str, object]:
    return {name: getattr(account, name) for name in account.__struct_fields__}  # type: ignore[attr-defined]


def test_scopes_narrow_and_the_caller_follows_the_account() -> None:
    rig = Rig()
    account = rig.run(lambda m: m.accounts.add("bob"))
    tokens = tokens_of(rig)
    _, text = rig.run(lambda m: tokens.create("bob", scopes=(("private$\\a*", PEEK_MESSAGE),)))
    first = tokens.authenticate(text, NOW).caller
    assert first.scope(".\\private$\\abc") == PEEK_MESSAGE
    assert first.scope(".\\private$\\xyz") == 0
    assert tokens.authenticate(text, NOW).caller is first
    rig.run(lambda m: m.accounts.replace(account))
    assert tokens.authenticate(text, NOW).caller is not first
    assert first.origin in rig.manager.ledger.stale_origins


def test_there_are_not_endlessly_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "TOKENS_MAX", 2)
    rig = Rig()
    tokens = tokens_of(rig)
    for _ in range(2):
        rig.run(lambda m: tokens.create())
    with pytest.raises(InsufficientResources):
        tokens.create()
    assert not rig.run(lambda m: tokens.remove("0" * 16))
