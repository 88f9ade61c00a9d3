"""The caller of an RPC method, for every RPC interface of this queue manager."""

from __future__ import annotations

from typing import Final

from posthouse.engine.accounts.logins import Logins
from posthouse.model.errors import AccessDenied, IllegalUser
from posthouse.rpc.interface import Call
from posthouse.security.access import Caller

_ANONYMOUS: Final = Caller.anonymous()


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
