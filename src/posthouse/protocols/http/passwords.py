"""Logins with user name and password over HTTP (the login `http`; docs/security.md).

A check takes a quarter of a second of a core on purpose, so it runs in threads of its own, a few at
a time. Unknown names, shut doors and disabled users take the same steps as a wrong password.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, NamedTuple

from posthouse.engine.accounts.accounts import Accounts
from posthouse.engine.accounts.logins import NAME_TOLD_MAX, Told, network_of
from posthouse.engine.accounts.tokens import password_id
from posthouse.model.bounded_tables import Bounded
from posthouse.model.errors import IllegalUser
from posthouse.model.roles import Role
from posthouse.protocols.handlers.refusals import TooManyLogins, Unauthorized
from posthouse.protocols.http.authentication import ApiIdentity, PasswordLogin
from posthouse.security.accounts import (
    NO_PASSWORD,
    Account,
    Door,
    LoginGuard,
    ScryptVerifier,
    user_key,
)

ROLE: Final = Role.OPERATE
"""What a password gives a user without a role: what the user may do with queues and messages.
Users, tokens, backups and the like need the role administer, or the control socket."""
THREADS: Final = 2
CHECKS_MAX: Final = 32  # under way or waiting for a thread, of all addresses
CHECKS_PER_NETWORK: Final = 4
FAILURES_PER_NETWORK: Final = 30  # within a minute, whatever the names
FAILURES_MS: Final = 60_000
NETWORKS_MAX: Final = 10_000
REMEMBERED_MS: Final = 60_000  # a right password is not checked again for this long
REMEMBERED_MAX: Final = 1_000
WRONG: Final = (
    "An administrator looks at the user's doors with posthouse user list, and sets another "
    "password with posthouse user passwd NAME."
)


def monotonic_ms() -> int:
    """The clock of waits."""
    return time.monotonic_ns() // 1_000_000


class _Known(NamedTuple):
    """A password that was right, for as long as its verifier is the account's."""

    verifier: ScryptVerifier
    until_ms: int


class PasswordLogins:
    """Checks passwords, and bounds how often an address may try."""

    def __init__(
        self,
        accounts: Accounts,
        told: Told = lambda user, address, cause: None,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self._accounts = accounts
        self._told = told  # each refusal, for the log
        self._now_ms = now_ms
        self._guard = LoginGuard()
        self._failures: Bounded[str, deque[int]] = Bounded(NETWORKS_MAX)
        self._checking: Counter[str] = Counter()
        self._checks: set[asyncio.Task[bool]] = set()
        self._known: Bounded[bytes, _Known] = Bounded(REMEMBERED_MAX)
        self._key = os.urandom(32)  # of what is remembered: no password is kept
        self._threads = ThreadPoolExecutor(THREADS, "passwords")  # none starts before it is needed

    async def identify(self, login: PasswordLogin, address: str) -> ApiIdentity:
        """Who this is; raises Unauthorized, or TooManyLogins without looking at the password."""
        network, mark = network_of(address), self._mark(login)
        verifier = self.verifier(login.user)
        known = self._known.get(mark)
        if known is not None and known.verifier is verifier and self._now_ms() < known.until_ms:
            return self._identity(login.user)
        try:
            self._check_pace(login.user, network)
        except TooManyLogins as error:
            self._told(login.user[:NAME_TOLD_MAX], address, f"not looked at: {error.cause}")
            raise
        # A client that leaves before its answer is counted as one that waits for it.
        check = asyncio.create_task(self._check(login, address, verifier))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        right = await asyncio.shield(check)
        if not right or self.verifier(login.user) is not verifier:  # it may have changed meanwhile
            raise Unauthorized("the user name or the password is wrong", WRONG)
        self._known[mark] = _Known(verifier, self._now_ms() + REMEMBERED_MS)
        return self._identity(login.user)

    async def _check(self, login: PasswordLogin, address: str, verifier: ScryptVerifier) -> bool:
        """Whether the password is right; takes a place until its thread has ended."""
        network = network_of(address)
        with self._checked(network):
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._threads, verifier.accepts, login.password)
        if right:
            self._guard.succeeded(login.user, network)
        else:
            self._failed(login.user, address, network)
        return right

    def still(self, user: str, verifier: ScryptVerifier) -> ApiIdentity | None:
        """Who a user is whose password was right, for as long as it is the user's and opens."""
        return self._identity(user) if self.verifier(user) is verifier else None

    def _mark(self, login: PasswordLogin) -> bytes:
        text = f"{user_key(login.user)}\0{login.password}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, hashlib.sha256)

    def _account(self, user: str) -> Account | None:
        try:
            account = self._accounts.find(user)
        except IllegalUser:
            return None
        return account if account.opens(Door.HTTP) else None

    def verifier(self, user: str) -> ScryptVerifier:
        """What the password of a user is compared with; it changes with the password."""
        account = self._account(user)
        return NO_PASSWORD if account is None or account.http is None else account.http

    def _identity(self, user: str) -> ApiIdentity:
        account = self._account(user)
        assert account is not None  # its verifier was looked at in the same step
        caller, role = self._accounts.caller(account.name), account.role or ROLE
        return ApiIdentity(caller, role, password_id(account.name))

    def _check_pace(self, user: str, network: str) -> None:
        """By the name as it was given: whether there is such a user shows in nothing."""
        now = self._now_ms()
        recent = self._failures.get(network, deque())
        while recent and recent[0] <= now - FAILURES_MS:
            recent.popleft()
        wait_ms = self._guard.wait_ms(user, network, now)
        if len(recent) >= FAILURES_PER_NETWORK:
            wait_ms = max(wait_ms, recent[0] + FAILURES_MS - now)
        if wait_ms:
            raise TooManyLogins("too many logins from this address have failed", wait_ms)
        if self._checking[network] >= CHECKS_PER_NETWORK or self._checking.total() >= CHECKS_MAX:
            raise TooManyLogins("too many logins are being checked at the moment", 1_000)

    @contextmanager
    def _checked(self, network: str) -> Iterator[None]:
        self._checking[network] += 1
        try:
            yield
        finally:
            self._checking[network] -= 1
            if not self._checking[network]:
                del self._checking[network]

    def _failed(self, user: str, address: str, network: str) -> None:
        now = self._now_ms()
        self._guard.failed(user, network, now)
        if network not in self._failures:
            self._failures[network] = deque(maxlen=FAILURES_PER_NETWORK)
        self._failures[network].append(now)
        self._told(user[:NAME_TOLD_MAX], address, "wrong user name or password")
