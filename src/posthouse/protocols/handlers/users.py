"""Users and tokens. For administrators only."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UnsetType

from posthouse.api.types import (
    Done,
    Nothing,
    PasswordBody,
    TokenCreateBody,
    TokenCreatedJson,
    TokenJson,
    TokenListJson,
    TokenParams,
    UserCreateBody,
    UserJson,
    UserListJson,
    UserParams,
    UserSetBody,
)
from posthouse.engine.accounts.tokens import ADMINISTRATOR
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.model.message_json import parse_time, time_text
from posthouse.model.roles import Role
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.refusals import NoSuchToken, NoSuchUser, UserExists
from posthouse.protocols.handlers.request_steps import Steps, at_once
from posthouse.security.accounts import (
    SALT_SIZE,
    Account,
    Door,
    ScryptVerifier,
    Token,
    check_user_name,
    make_verifier,
    parse_scopes,
    user_key,
)
from posthouse.security.nt_hash import nt_hash_of_account
from posthouse.security.rights import format_rights
from posthouse.security.sids import ADMINISTRATORS, format_sid

# -- users


def list_users(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> UserListJson:
    """Lists the users."""
    context.require_administrator()
    return UserListJson(users=[_user_json(account) for account in manager.accounts.all()])


def show_user(
    manager: QueueManager, context: Context, params: UserParams, body: Nothing
) -> UserJson:
    """Shows a user."""
    context.require_administrator()
    return _user_json(_account(manager, params.name))


def _user_json(account: Account) -> UserJson:
    return UserJson(
        name=account.name,
        sid=format_sid(account.sid),
        administrator=account.is_administrator,
        doors=[door.value for door in account.doors],
        shut=[door.value for door in account.doors if not account.has_verifier(door)],
        password=account.http is not None,
        disabled=account.disabled,
        created_time=time_text(account.created_s),
        role=None if account.role is None else account.role.value,
    )


def _account(manager: QueueManager, name: str) -> Account:
    try:
        return manager.accounts.find(name)
    except QueueError:
        raise NoSuchUser("there is no user of that name") from None


def add_user(context: Context, params: Nothing, body: UserCreateBody) -> Steps[UserJson]:
    """Adds a user; without a password only their tokens let them in."""

    def check(manager: QueueManager) -> None:
        context.require_administrator()
        check_user_name(body.name)
        taken = {account.key for account in manager.accounts.all()} | {ADMINISTRATOR}
        if user_key(body.name) in taken:
            raise UserExists(f"the user {body.name} already exists")

    def add(manager: QueueManager) -> UserJson:
        check(manager)
        groups = (ADMINISTRATORS,) if body.administrator else ()
        doors = _doors(body.doors)
        account = manager.accounts.add(
            body.name,
            groups=groups,
            doors=doors,
            http=verifier,
            nt_hash=_nt_hash(body.password),
            netware_password=body.password,
            role=None if body.role is None else Role(body.role),
        )
        context.tell(
            manager,
            "user_added",
            user=account.name,
            administrator=body.administrator,
            role=body.role or "none",
        )
        return _user_json(account)

    yield from at_once(check)  # before the costly part
    verifier = None
    if body.password is not None:
        verifier = yield from _verifier(context, body.password)
    return (yield from at_once(add))


def _nt_hash(password: str | None) -> bytes | None:
    return None if password is None else nt_hash_of_account(password)


def _doors(words: Iterable[str]) -> tuple[Door, ...]:
    return tuple(Door(word) for word in sorted(set(words)))


def _verifier(context: Context, password: str) -> Steps[ScryptVerifier]:
    """Takes a good part of a second on purpose, so it runs outside the engine."""
    salt = yield from at_once(lambda manager: manager.machine.random_bytes(SALT_SIZE))
    answer = yield context.services.offload(lambda: make_verifier(password, salt))
    assert isinstance(answer.value, ScryptVerifier)
    return answer.value


def set_user(
    manager: QueueManager, context: Context, params: UserParams, body: UserSetBody
) -> UserJson:
    """Changes a user: doors, role, administrator or not, disabled or not. Open sessions end.

    Leases of the user end with them.
    """
    context.require_administrator()
    account = _account(manager, params.name)
    if not isinstance(body.doors, UnsetType):
        account = _with_doors(account, _doors(body.doors))
    if not isinstance(body.administrator, UnsetType):
        others = tuple(group for group in account.groups if group != ADMINISTRATORS)
        groups = (*others, ADMINISTRATORS) if body.administrator else others
        account = msgspec.structs.replace(account, groups=groups)
    if not isinstance(body.disabled, UnsetType):
        account = msgspec.structs.replace(account, disabled=body.disabled)
    if not isinstance(body.role, UnsetType):
        role = None if body.role is None else Role(body.role)
        account = msgspec.structs.replace(account, role=role)
    manager.accounts.replace(account)
    _end_sessions(context, account)
    context.tell(
        manager,
        "user_changed",
        user=account.name,
        administrator=account.is_administrator,
        disabled=account.disabled,
        role="none" if account.role is None else account.role.value,
    )
    return _user_json(account)


def _with_doors(account: Account, doors: tuple[Door, ...]) -> Account:
    """An rpc door that is taken away takes its verifier along; a new one waits for a password."""
    rpc = account.rpc if Door.RPC in doors else b""
    return msgspec.structs.replace(account, doors=doors, rpc=rpc)


def _end_sessions(context: Context, account: Account) -> None:
    """The tokens stay good, for what the account may do from now on."""
    context.services.revoked(context.services.tokens.sessions_of(account.name))


def set_password(context: Context, params: UserParams, body: PasswordBody) -> Steps[Done]:
    """Gives a user a new password for all of their doors. Open sessions and leases end."""

    def check(manager: QueueManager) -> Account:
        context.require_administrator()
        return _account(manager, params.name)

    def store(manager: QueueManager) -> Done:
        account = msgspec.structs.replace(check(manager), http=verifier)
        account = manager.accounts.with_nt_hash(account, _nt_hash(body.password))
        account = manager.accounts.with_netware_password(account, body.password)
        manager.accounts.replace(account)
        _end_sessions(context, account)
        context.tell(manager, "password_changed", user=account.name)
        return Done()

    yield from at_once(check)
    verifier = yield from _verifier(context, body.password)
    return (yield from at_once(store))


def delete_user(manager: QueueManager, context: Context, params: UserParams, body: Nothing) -> Done:
    """Deletes a user and their tokens; their leases end, their queues stay."""
    context.require_administrator()
    name = _account(manager, params.name).name
    context.services.revoked(context.services.tokens.remove_of(name))
    manager.accounts.remove(name)
    context.tell(manager, "user_deleted", user=name)
    return Done()


# -- tokens


def list_tokens(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> TokenListJson:
    """Lists the tokens, without their secrets."""
    context.require_administrator()
    return TokenListJson(tokens=[_token_json(token) for token in context.services.tokens.all()])


def _token_json(token: Token) -> TokenJson:
    return TokenJson(
        id=token.id,
        user=token.user,
        role=token.role.value,
        queues=[f"{pattern}={format_rights(mask)}" for pattern, mask in token.scopes or ()],
        expires=None if token.expires_s is None else time_text(token.expires_s),
        created_time=time_text(token.created_s),
    )


def create_token(
    manager: QueueManager, context: Context, params: Nothing, body: TokenCreateBody
) -> TokenCreatedJson:
    """Makes a token. Its secret is in this answer and nowhere else."""
    context.require_administrator()
    if user_key(body.user) != ADMINISTRATOR:
        _account(manager, body.user)
    expires_s = None if body.expires is None else parse_time(body.expires)
    if expires_s is not None and expires_s <= manager.machine.utc:
        raise InvalidParameter("the token would have expired already")
    scopes = parse_scopes([_here(manager, pattern) for pattern in body.queues])
    token, text = context.services.tokens.create(
        body.user, role=Role(body.role), scopes=scopes, expires_s=expires_s
    )
    context.tell(manager, "token_created", id=token.id, user=token.user, role=token.role.value)
    return TokenCreatedJson(token=text, info=_token_json(token))


def _here(manager: QueueManager, pattern: str) -> str:
    """Patterns name local queues by a dot; lists of queues show them by the computer's name."""
    computer, slash, rest = pattern.replace("/", "\\").partition("\\")
    own = slash and computer.lower() in manager.queues.own_hosts()
    return f".\\{rest}" if own else pattern


def revoke_token(
    manager: QueueManager, context: Context, params: TokenParams, body: Nothing
) -> Done:
    """Revokes a token: it is good for nothing from now on, and its open sessions and leases end."""
    context.require_administrator()
    if not context.services.tokens.remove(params.id):
        raise NoSuchToken(f"there is no token {params.id}")
    context.services.revoked([params.id])
    context.tell(manager, "token_revoked", id=params.id)
    return Done()
