"""The caller of an RPC method and their acts, for every RPC interface of this queue manager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from posthouse.engine.accounts.logins import Logins
from posthouse.model.errors import AccessDenied, IllegalUser, QueueError
from posthouse.rpc.interface import Call
from posthouse.security.access import Caller

_ANONYMOUS: Final = Caller.anonymous()


class RemoteAct(NamedTuple):
    """An action that someone on another machine asked for, and what came of it."""

    user: str
    address: str
    action: str
    object: str
    error: QueueError | None


Acted = Callable[[RemoteAct, Callable[[], None]], None]
"""Writes an act of an operator down, and calls when it is."""


def unaudited(act: RemoteAct, then: Callable[[], None]) -> None:
    """Where there is no audit log."""
    then()


def caller_of(logins: Logins, call: Call) -> Caller:
    """Who asks; without a proof of identity anonymous, whatever else is claimed (decision 7)."""
    identity = call.identity
    if identity is None:
        return _ANONYMOUS
    try:
        if not identity.has_account:
            user = identity.account, identity.user, identity.groups
            return logins.domain_caller(*user, identity.names)
        return logins.caller(identity.account).with_groups(identity.groups)
    except IllegalUser as error:  # it was there at the login
        raise AccessDenied(error.cause) from None
