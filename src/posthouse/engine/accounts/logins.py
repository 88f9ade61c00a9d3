"""Logins over RPC: passwords, and a limit on attempts (decision 14).

A login proves an account, and is worth as much as that account is at each later use: an account
that was disabled, has lost the door or is gone no longer gives a caller.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, NamedTuple

from posthouse.engine.accounts.accounts import Accounts
from posthouse.model.errors import CorruptedSecurityData, IllegalUser
from posthouse.security.access import Caller
from posthouse.security.accounts import Account, Door, LoginGuard
from posthouse.security.nt_hash import open_nt_hash, seal_nt_hash

Told = Callable[[str, str, str], None]
NAME_TOLD_MAX: Final = 80  # strangers name themselves as they like, and at length
_DECOY: Final = seal_nt_hash(bytes(16), bytes(32), bytes(12), b""), bytes(32), b""


class Proved(NamedTuple):
    """An account that somebody has proved to be: its name, and its SID, which names no other."""

    name: str
    sid: bytes


class Logins:
    """The accounts as a door sees them that strangers knock at."""

    def __init__(self, accounts: Accounts, now_ms: Callable[[], int]) -> None:
        self.accounts = accounts
        self.guard = LoginGuard()
        self.told: Told = lambda user, address, cause: None  # each refusal, for the log
        self.refusals = 0
        self.takes_domain_users = False  # without an account here, if the domain has signed it
        self._now_ms = now_ms

    def knows(self, user: str) -> bool:
        """Whether there is an account of that name, which may be closed."""
        return self._known(user) is not None

    def wait_ms(self, user: str, address: str) -> int:
        """How long this name has to wait at this address before a password counts again."""
        return self.guard.wait_ms(self._counted(user), network_of(address), self._now_ms())

    def nt_hash(self, user: str, address: str) -> bytes | None:
        """What to compare a proof with; None where no proof would do."""
        account = self._known(user)
        if account is None or not account.opens(Door.RPC) or self.wait_ms(user, address):
            open_nt_hash(*_DECOY)  # it takes as long as if there were one
            return None
        try:
            return self.accounts.nt_hash(account)
        except CorruptedSecurityData as error:
            self.told(account.name, address, str(error))
            return None

    def refused(self, user: str, address: str, cause: str) -> None:
        """Nothing was proved. Tries during the wait are not failures: they were not looked at."""
        self.refusals += 1
        if not self.wait_ms(user, address):
            self.guard.failed(self._counted(user), network_of(address), self._now_ms())
        self.told(user[:NAME_TOLD_MAX], address, cause)

    def accepted(self, user: str, address: str) -> Proved:
        """The proof was right."""
        self.guard.succeeded(user, network_of(address))
        return _proved(self.accounts.find(user))

    def vouched(self, user: str) -> Proved | None:
        """Somebody whom a third party has vouched for, as Kerberos does: no password is needed.

        Names that only look alike, as in another width, are other people over there.
        """
        account = self._known(user)
        if account is None or account.name.casefold() != user.casefold():
            return None
        return _proved(account) if _may_enter(account) else None

    def caller(self, sid: bytes) -> Caller:
        """The caller for who has logged in, as long as they still could."""
        account = self.accounts.of_sid(sid)
        if account is None or not _may_enter(account):
            raise IllegalUser("this user may no longer use the rpc door")
        return self.accounts.caller(account.name)

    def domain_caller(
        self, sid: bytes, user: str, groups: tuple[bytes, ...], names: tuple[str, ...]
    ) -> Caller:
        """The caller for a user of a domain, as long as no account has one of these names.

        An account decides for its user, open or closed: it is how an administrator shuts one out.
        """
        if not self.takes_domain_users or any(self.knows(name) for name in names):
            raise IllegalUser(f"{user} may no longer use the rpc door without an account")
        return Caller.user(sid, user, groups).proved_by(self.accounts.origin_of_guest(names))

    def _counted(self, user: str) -> str:
        """Under which name failures count: unknown names share one.

        Else somebody could make up this many that their own failures are forgotten.
        """
        account = self._known(user)
        return "" if account is None else account.name

    def _known(self, user: str) -> Account | None:
        try:
            return self.accounts.find(user)
        except IllegalUser:
            return None


def network_of(address: str) -> str:
    """Where somebody is. Of IPv6 everybody has 2^64 addresses, which count as one."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 4:
        return address
    return str(known.ipv4_mapped or known.packed[:8].hex())


def _proved(account: Account) -> Proved:
    return Proved(account.name, account.sid)


def _may_enter(account: Account) -> bool:
    return Door.RPC in account.doors and not account.disabled
