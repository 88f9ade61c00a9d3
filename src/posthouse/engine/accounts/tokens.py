"""Access tokens as records of the log, and the callers they stand for (docs/security.md).

A token belongs to a user, or to the administrator that every queue manager has. Only a hash of its
secret is kept. A token gives the caller of its user as that is now, narrowed to the
queues of the token, to what its role leaves, and to the role of the user where that is smaller.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

from posthouse.engine.accounts.accounts import Accounts
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_ACCOUNT, Change
from posthouse.model.bounded_tables import require_room
from posthouse.model.errors import AccessDenied, IllegalUser
from posthouse.model.roles import Role
from posthouse.security.access import Caller, Scopes
from posthouse.security.accounts import (
    TOKEN_ID_SIZE,
    TOKEN_SECRET_SIZE,
    Token,
    decode_token,
    encode_record,
    split_token,
    token_text,
    user_key,
)
from posthouse.security.role_rights import ROLE_RIGHTS

ADMINISTRATOR: Final = "administrator"
"""The user of tokens that act as the control socket does; no account may bear the name."""
TOKENS_MAX: Final = 10_000
_KEY = b"token:"
_PASSWORD: Final = "password of "


class Granted(NamedTuple):
    """The caller of a token, and the token's role and limits."""

    caller: Caller
    role: Role
    token: Token


class Tokens:
    """The access tokens of this queue manager."""

    gone: Callable[[list[str]], None]  # told of their ends

    def __init__(self, core: Ledger, accounts: Accounts) -> None:
        self.core = core
        self.accounts = accounts
        self._administrator = Caller.administrator()
        self._tokens: dict[str, Token] = {}
        self._granted: dict[str, tuple[Caller, Granted]] = {}
        self.gone = lambda token_ids: None
        accounts.followers.append(self._user_goes)
        self._lapsed: list[str] = []  # of services that the last stop has ended
        for key, value in core.state.of_table(TABLE_ACCOUNT):
            if key.startswith(_KEY):
                token = decode_token(value)
                if token.of_service:
                    self._lapsed.append(token.id)
                else:
                    self._tokens[token.id] = token

    def all(self) -> list[Token]:
        """Every token, the oldest first."""
        return sorted(self._tokens.values(), key=lambda token: (token.created_s, token.id))

    def of(self, user: str) -> list[Token]:
        """The tokens of a user."""
        key = user_key(user)
        return [token for token in self._tokens.values() if user_key(token.user) == key]

    def sessions_of(self, user: str) -> list[str]:
        """What sessions of a user are known by: their tokens, and their password."""
        return [*(token.id for token in self.of(user)), password_id(user)]

    def find(self, token_id: str) -> Token | None:
        """The token of that identifier."""
        return self._tokens.get(token_id)

    def is_over(self, token_id: str) -> bool:
        """Whether a token that was shown has been revoked or has expired since.

        Passwords and the control socket have none: they are good while their account is.
        """
        token = self.find(token_id)
        if token is None:
            return bool(token_id) and not token_id.startswith(_PASSWORD)
        return token.expired(self.core.utc)

    def create(
        self,
        user: str = ADMINISTRATOR,
        *,
        role: Role = Role.READ,
        scopes: Scopes | None = None,
        expires_s: int | None = None,
        of_service: bool = False,
    ) -> tuple[Token, str]:
        """A new token and the one text that holds its secret; it cannot be read again."""
        if user_key(user) != ADMINISTRATOR:
            user = self.accounts.find(user).name
        require_room(len(self._tokens), TOKENS_MAX, "tokens", "Revoke some of them.")
        token_id, secret = self._new_id(), self.core.random_bytes(TOKEN_SECRET_SIZE)
        token = Token(
            id=token_id.hex(),
            user=user,
            role=role,
            scopes=scopes,
            expires_s=expires_s,
            secret_sha256=hashlib.sha256(secret).digest(),
            created_s=self.core.utc,
            of_service=of_service,
        )
        self._tokens[token.id] = token
        change = Change()
        while self._lapsed:
            self._define(self._lapsed.pop(), None, change)
        self._define(token.id, encode_record(token), change)
        self.core.commit(change)
        return token, token_text(token_id, secret)

    def _new_id(self) -> bytes:
        while (token_id := self.core.random_bytes(TOKEN_ID_SIZE)).hex() in self._tokens:
            pass
        return token_id

    def remove(self, token_id: str, change: Change | None = None) -> bool:
        """The token is revoked; False when there was none.

        With a change it goes in the caller's step.
        """
        self._granted.pop(token_id, None)
        if self._tokens.pop(token_id, None) is None:
            return False
        step = Change() if change is None else change
        self._define(token_id, None, step)
        if change is None:
            self.core.commit(step)
        return True

    def remove_of(self, user: str) -> list[str]:
        """A user goes, and their tokens with them: the next of that name must not inherit them."""
        gone = self.sessions_of(user)
        for token_id in gone:
            self.remove(token_id)
        return gone

    def _user_goes(self, user: str, change: Change) -> None:
        """A user was removed by another part of the engine: remove the user's tokens."""
        gone = self.sessions_of(user)
        for token_id in gone:
            self.remove(token_id, change)
        self.gone(gone)

    def authenticate(self, text: str, now_s: int) -> Granted:
        """Who shows this text; AccessDenied, without saying why, for any that is not good."""
        split = split_token(text)
        token = self._tokens.get(split[0]) if split else None
        if split is None or token is None or not token.accepts(split[1], now_s):
            raise _refused()
        return self.granted(token)

    def granted(self, token: Token) -> Granted:
        """The caller of a token whose secret was shown."""
        try:
            user = self._user_of(token)
        except IllegalUser:
            raise _refused() from None
        known = self._granted.get(token.id)
        if known is None or known[0] is not user:
            role = token.role.within(self._role_of(token))
            caller = user.narrowed(token.scopes, *ROLE_RIGHTS[role])
            granted = Granted(caller, role, token)
            self._granted[token.id] = known = user, granted
        return known[1]

    def _user_of(self, token: Token) -> Caller:
        if user_key(token.user) == ADMINISTRATOR:
            return self._administrator
        return self.accounts.caller(token.user)

    def _role_of(self, token: Token) -> Role | None:
        """The role that limits the user of a token, if one does."""
        if user_key(token.user) == ADMINISTRATOR:
            return None
        return self.accounts.find(token.user).role

    def _define(self, token_id: str, value: bytes | None, change: Change) -> None:
        self.core.define(TABLE_ACCOUNT, _KEY + token_id.encode(), value, change)


def password_id(user: str) -> str:
    """What stands for the token where a user has shown a password."""
    return _PASSWORD + user_key(user)


def _refused() -> AccessDenied:
    return AccessDenied(
        "the token is unknown, revoked or expired", "Ask an administrator for a new one."
    )
