"""Accounts as records of the log, and callers made from them ([MS-MQDMPR] 3.1.1.15; decision 14).

A caller stands for an account as it was when the caller was made. When the account changes or goes,
its callers are stale: queues they have open refuse them from the next operation on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

import msgspec

from posthouse.engine.accounts.certificates import Certificates, SealedRecord
from posthouse.engine.ledger.ledger import Ledger, ReservedCounter
from posthouse.engine.ledger.records import TABLE_ACCOUNT, Change
from posthouse.model.errors import IllegalUser
from posthouse.model.roles import Role
from posthouse.security.access import Caller, Origin
from posthouse.security.accounts import (
    Account,
    Door,
    ScryptVerifier,
    check_user_name,
    decode_account,
    encode_record,
    user_key,
)
from posthouse.security.certificates import NONCE_SIZE
from posthouse.security.netware_hash import open_netware_hash
from posthouse.security.nt_hash import open_nt_hash, seal_nt_hash
from posthouse.security.sids import FIRST_ACCOUNT_RID, local_sid

_KEY = b"user:"


class BinderyUsers(Protocol):
    """The bindery, as far as it follows accounts."""

    def check_room(self) -> None:
        """Refuses where one more object is too many."""
        ...

    def user_added(self, account: Account, change: Change) -> None:
        """An account is a user of the bindery."""
        ...

    def user_changed(self, account: Account, change: Change) -> None:
        """Rights or the name of an account have changed."""
        ...

    def user_removed(self, account: Account, change: Change) -> None:
        """The user goes with its account."""
        ...

    def sealed_for_account(self, account: Account, password: str) -> bytes:
        """What the bindery keeps of a password."""
        ...

    def sealed_records(self) -> Iterator[SealedRecord]:
        """Yield the passwords of objects other than users."""
        ...


class Accounts:
    """The users of this queue manager."""

    bindery: BinderyUsers  # in which each of them is an object

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._accounts: dict[str, Account] = {}
        self._callers: dict[str, Caller] = {}
        self._by_sid: dict[bytes, str] = {}
        # Of users of a domain, under all their names, while something of theirs is open.
        self._guests: WeakValueDictionary[tuple[str, ...], Origin] = WeakValueDictionary()
        self.followers: list[Callable[[str, Change], None]] = []  # told of names that go
        self._rids = ReservedCounter(core, b"rid", 8, start=FIRST_ACCOUNT_RID)
        self.certificates = Certificates(core, self)

    def load(self) -> None:
        """Everything the store kept."""
        for key, value in self.core.state.of_table(TABLE_ACCOUNT):
            if key.startswith(_KEY):
                account = decode_account(value)
                self._accounts[account.key] = account
                self._by_sid[account.sid] = account.key
        self.certificates.load()

    def all(self) -> list[Account]:
        """Every account, by name."""
        return [account for _, account in sorted(self._accounts.items())]

    def find(self, name: str) -> Account:
        """The account of that name, however its letters are cased."""
        account = self._accounts.get(user_key(name))
        if account is None:
            raise IllegalUser(
                f"there is no user {name}",
                "`posthouse user list` shows the users; `posthouse user create NAME` adds one.",
            )
        return account

    def of_sid(self, sid: bytes) -> Account | None:
        """The account with this security identifier."""
        key = self._by_sid.get(sid)
        return None if key is None else self._accounts[key]

    def add(
        self,
        name: str,
        *,
        groups: tuple[bytes, ...] = (),
        doors: tuple[Door, ...] = (Door.HTTP,),
        http: ScryptVerifier | None = None,
        nt_hash: bytes | None = None,
        netware_password: str | None = None,
        role: Role | None = None,
    ) -> Account:
        """A new account; its SID is never given to another one. It is a user of the bindery, too.

        Nothing is kept of the NT hash and the NetWare password but at the doors rpc and ncp.
        """
        check_user_name(name)
        if user_key(name) in self._accounts:
            raise IllegalUser(f"the user {name} already exists", "Choose another name.")
        if nt_hash is not None and Door.RPC in doors:
            self.sealing_key()  # refuses before anything is changed
        if netware_password is not None and Door.NCP in doors:
            self.sealing_key()
        self.bindery.check_room()
        rid = self._rids.next()
        account = Account(
            name=name,
            rid=rid,
            sid=local_sid(self.core.guid, rid),
            groups=groups,
            doors=doors,
            http=http,
            created_s=self.core.utc,
            role=role,
        ).checked()
        change = Change()
        self.bindery.user_added(account, change)
        account = self.with_nt_hash(account, nt_hash)
        account = self.with_netware_password(account, netware_password)
        self._store(account, change)
        return account

    def with_nt_hash(self, account: Account, nt_hash: bytes | None) -> Account:
        """The account with another verifier at its rpc door, sealed; without that door with none.

        An NT hash has no salt and is as good as the password: it is kept where it is needed only.
        """
        if nt_hash is None or Door.RPC not in account.doors:
            return msgspec.structs.replace(account, rpc=b"")
        nonce = self.core.random_bytes(NONCE_SIZE)
        sealed = seal_nt_hash(nt_hash, self.sealing_key(), nonce, account.sid)
        return msgspec.structs.replace(account, rpc=sealed)

    def nt_hash(self, account: Account) -> bytes:
        """The verifier of the rpc door; raises CorruptedSecurityData where it cannot be opened."""
        return open_nt_hash(account.rpc, self.sealing_key(), account.sid)

    def with_netware_password(self, account: Account, password: str | None) -> Account:
        """The account with another verifier at its ncp door; without that door with none."""
        if password is None or Door.NCP not in account.doors:
            return msgspec.structs.replace(account, ncp=b"")
        sealed = self.bindery.sealed_for_account(account, password)
        return msgspec.structs.replace(account, ncp=sealed)

    def sealed_records(self) -> Iterator[SealedRecord]:
        """Yield everything that is sealed with the key file of the home."""
        for one in self.all():
            what, sid = f"the password of {one.name}", one.sid
            if one.rpc:
                yield SealedRecord(f"{what} (door rpc)", partial(open_nt_hash, one.rpc, sid=sid))
            if one.ncp:
                yield SealedRecord(
                    f"{what} (door ncp)", partial(open_netware_hash, one.ncp, owner=sid)
                )
        yield from self.bindery.sealed_records()
        yield from self.certificates.sealed_records()

    def sealing_key(self) -> bytes:
        """What verifiers are sealed with: the key file of the home."""
        return self.certificates.key_file()

    def replace(self, account: Account) -> None:
        """New values of an account that exists; callers made from the old ones are stale."""
        old = self.find(account.name)
        if (old.rid, old.sid) != (account.rid, account.sid):
            raise IllegalUser(f"the identity of {account.name} cannot be changed")
        change, account = Change(), account.checked()
        self._outdate(account.key)
        self._accounts[account.key] = account
        self.bindery.user_changed(account, change)
        self._store(account, change)

    def remove(self, name: str) -> None:
        """The account is gone; its queues stay, owned by a SID that no account has."""
        account = self.find(name)
        self._outdate(account.key)
        del self._accounts[account.key], self._by_sid[account.sid]
        self.certificates.withdraw_all(account.sid)
        change = Change()
        for follow in self.followers:
            follow(account.name, change)
        self.bindery.user_removed(account, change)
        self.core.define(TABLE_ACCOUNT, _KEY + account.key.encode(), None, change)
        self.core.commit(change)

    def caller(self, name: str) -> Caller:
        """The caller for an account whose identity was proved."""
        account = self.find(name)
        if account.disabled:
            raise IllegalUser(f"the user {name} is disabled", "An administrator can enable it.")
        caller = self._callers.get(account.key)
        if caller is None:
            caller = self._callers[account.key] = account.caller()
        return caller

    def origin_of_guest(self, names: tuple[str, ...]) -> Origin:
        """The proof of identity of a user without an account, until an account has such a name."""
        keys = tuple(user_key(name) for name in names)
        origin = self._guests.get(keys)
        if origin is None:
            origin = self._guests[keys] = Origin()
        return origin

    def _store(self, account: Account, change: Change) -> None:
        self._outdate(account.key)
        self._accounts[account.key] = account
        self._by_sid[account.sid] = account.key
        key = _KEY + account.key.encode()
        self.core.define(TABLE_ACCOUNT, key, encode_record(account), change)
        self.core.commit(change)

    def _outdate(self, key: str) -> None:
        caller = self._callers.pop(key, None)
        if caller is not None:
            self.core.stale_origins.add(caller.origin)
        for keys in [keys for keys in self._guests if key in keys]:
            self.core.stale_origins.add(self._guests.pop(keys))
        self.core.rights_version += 1
