"""Passwords of bindery objects, and who may log in with them (qms-facts 4.3; decisions 13, 14).

A user and an account are one thing: the account keeps the verifier. Other objects, such as queue
servers, keep their own. Either is sealed with the key file, and bound to the object's ID.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from functools import partial
from zlib import crc32

import msgspec

from posthouse.engine.accounts.accounts import Accounts
from posthouse.engine.accounts.certificates import SealedRecord
from posthouse.engine.accounts.logins import NAME_TOLD_MAX, Told, network_of
from posthouse.engine.jobs.bindery.objects import BinderyObject
from posthouse.engine.jobs.bindery.rights import BinderyRights
from posthouse.engine.jobs.bindery.stations import Station, Stations
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import Change
from posthouse.model.bindery import NWOT_USER, SUPERVISOR_ID, object_name
from posthouse.model.completion_codes import (
    FAILURE,
    ILLEGAL_NAME,
    INTRUDER_LOCKOUT,
    LOGIN_DISABLED,
    NO_OBJECT_READ,
    NO_SUCH_OBJECT,
    PASSWORD_TOO_SHORT,
)
from posthouse.model.errors import CorruptedSecurityData, QmsError
from posthouse.model.roles import Role
from posthouse.model.text import excerpt
from posthouse.security.access import Caller
from posthouse.security.accounts import Account, Door, LoginGuard
from posthouse.security.certificates import NONCE_SIZE
from posthouse.security.netware_hash import (
    ANSWER_SIZE,
    KEY_SIZE,
    answers_to,
    open_netware_hash,
    password_hash,
    seal_netware_hash,
)
from posthouse.security.sids import ADMINISTRATORS

PASSWORD_MAX = 127
DECOY_COUNTS = 1024  # of wrong passwords for names that no object has


class BinderyLogins(BinderyRights):
    """Logins and passwords."""

    def __init__(self, core: Ledger, accounts: Accounts, stations: Stations) -> None:
        super().__init__(core, accounts, stations)
        self.guard = LoginGuard()
        self._report: Told = lambda user, address, cause: None

    def report_refusals(self, told: Told) -> None:
        """Calls that with each refused login from now on, for the log."""
        self._report = told

    # -- logging in

    def login_key(self, station: Station) -> bytes:
        """Eight fresh bytes; the next keyed call of this station answers to them (0x17)."""
        station.login_key = self.core.random_bytes(KEY_SIZE)
        return station.login_key

    def login_keyed(self, station: Station, kind: int, name: str, answer: bytes) -> None:
        """Login with the answer to the key (0x18)."""
        key = self._taken_key(station)
        one = self._knocking(station, kind, name)
        self._proved(station, one, _answers(key, self._verifier(one), answer))
        self._logged_in(station, one, Door.NCP)

    def login(self, station: Station, kind: int, name: str, password: str) -> None:
        """Login with the password itself (0x14); its door decides whether that is wanted."""
        one = self._knocking(station, kind, name)
        self._proved(station, one, self._accepts(one, password))
        self._logged_in(station, one, Door.NCP)

    def enter(
        self, station: Station, caller: Caller, kind: int | None = None, name: str | None = None
    ) -> None:
        """A login by a door that has verified its caller; administrators may be any object.

        Without an account of their own, as at the control socket, they are SUPERVISOR.
        """
        if caller.scopes is not None:
            raise QmsError(
                NO_OBJECT_READ,
                "this token is limited to some message queues",
                "Use a token without --queue.",
            )
        if kind is not None and name is not None and caller.is_administrator:
            self._logged_in(station, self.objects.get(kind, object_name(name)), None)
            return
        own = self.object_of_caller(caller)
        if own is None:
            raise QmsError(NO_SUCH_OBJECT, f"{caller.name} has no object in the bindery")
        if (kind, name) != (None, None) and (kind, (name or "").upper()) != (own.type, own.name):
            raise QmsError(
                NO_OBJECT_READ,
                f"{caller.name} cannot act as {excerpt(name or '')}",
                "Log in with the password of that object, or as an administrator.",
            )
        self._logged_in(station, own, None)

    def object_of_caller(self, caller: Caller) -> BinderyObject | None:
        """The user object of somebody who was proved elsewhere; None: they have none."""
        if not caller.authenticated:
            return None
        found = self.objects.of_sid(caller.sid)
        if found is None and caller.sid == ADMINISTRATORS:
            return self.objects.by_id[SUPERVISOR_ID]
        return found

    def _logged_in(self, station: Station, one: BinderyObject, door: Door | None) -> None:
        change = Change()
        self.stations.leave(station, change)
        station.object_id = one.id
        station.door = door
        station.logged_in_utc = self.core.utc
        self.core.commit(change)

    def _knocking(self, station: Station, kind: int, name: str) -> BinderyObject:
        """The object somebody wants to be, if a password for it would be looked at."""
        try:
            one = self.objects.find(kind, object_name(name))
        except QmsError as error:
            if error.completion != ILLEGAL_NAME:
                raise
            one = None
        where = network_of(station.address)
        if self.guard.wait_ms(self._counted(one, name), where, self.core.now_ms):
            self._refused(station, one, "too many wrong passwords: not looked at", name)
            raise QmsError(INTRUDER_LOCKOUT, f"too many wrong passwords came from {where}")
        if one is None:
            self._failed(station, None, "unknown object", name)
            self._hide_from(station, name)
            raise QmsError(NO_SUCH_OBJECT, f"there is no object {excerpt(name)} of type {kind}")
        if self._verifier(one) is None:
            refuse = self._failed if self.is_stranger(station) else self._refused
            refuse(station, one, "disabled or without a password")
            self._hide_from(station, name)
            raise QmsError(LOGIN_DISABLED, f"{one.name} is disabled or has no password")
        return one

    def _hide_from(self, station: Station, name: str) -> None:
        """Strangers get one answer for all: a wrong password, no such object, no password."""
        if self.is_stranger(station):
            raise _wrong_password(name)

    def _proved(self, station: Station, one: BinderyObject, right: bool) -> None:
        if not right:
            self._failed(station, one, "wrong password")
            raise _wrong_password(one.name)
        self.guard.succeeded(self._counted(one), network_of(station.address))

    def _failed(
        self, station: Station, one: BinderyObject | None, why: str, name: str = ""
    ) -> None:
        where = network_of(station.address)
        self.guard.failed(self._counted(one, name), where, self.core.now_ms)
        self._refused(station, one, why, name)

    def _refused(
        self, station: Station, one: BinderyObject | None, why: str, name: str = ""
    ) -> None:
        self.core.refusals["ncp_login_refused"] += 1
        self._report(one.name if one else name[:NAME_TOLD_MAX], station.address, why)

    def _counted(self, one: BinderyObject | None, name: str = "") -> str:
        """Under what failures count. Names without an object share a few counts: a stranger who
        makes up names must neither push out other counts nor see that they are made up."""
        if one is not None:
            return f"{one.id:08X}"
        return f"?{crc32(name.upper().encode()) % DECOY_COUNTS}"

    def _taken_key(self, station: Station) -> bytes:
        key, station.login_key = station.login_key, b""
        if not key:
            raise QmsError(FAILURE, "no login key was requested", "Ask for a login key first.")
        return key

    # -- verifiers

    def _verifier(self, one: BinderyObject) -> bytes | None:
        """What to compare a proof with; None: no proof would do."""
        sealed, owner = one.stored.password, _owner(one)
        if one.type == NWOT_USER:
            account = self.accounts.of_sid(one.stored.sid) if one.stored.sid else None
            if account is None or not account.opens(Door.NCP):
                return None
            if account.role is not None and not account.role.includes(Role.OPERATE):
                return None  # what is done here is the work of operators and applications
            sealed, owner = account.ncp, account.sid
        if not sealed:
            return None
        try:
            return open_netware_hash(sealed, self.accounts.sealing_key(), owner)
        except CorruptedSecurityData as error:
            self.core.event("ncp_login_refused", object=one.name, why=str(error))
            return None

    def _accepts(self, one: BinderyObject, password: str) -> bool:
        verifier = self._verifier(one)
        if verifier is None:
            return False
        return hmac.compare_digest(verifier, password_hash(one.id, password))

    def verify_password(self, station: Station, kind: int, name: str, password: str) -> None:
        """Verify Password (0x3F); refuses where it is wrong."""
        one = self._knocking(station, kind, name)
        self._proved(station, one, self._accepts(one, password))

    def verify_keyed(self, station: Station, kind: int, name: str, answer: bytes) -> None:
        """Keyed Verify Password (0x4A)."""
        key = self._taken_key(station)
        one = self._knocking(station, kind, name)
        self._proved(station, one, _answers(key, self._verifier(one), answer))

    def change_object_password(
        self, station: Station, kind: int, name: str, old: str, new: str
    ) -> None:
        """NWChangeObjectPassword (0x40). A supervisor does not need the old one."""
        if self.is_supervisor(station):
            one = self.objects.get(kind, object_name(name))
        else:
            one = self._knocking(station, kind, name)
            self._proved(station, one, self._accepts(one, old))
        self.check_password(new)
        self.set_password(one, new)

    def check_password(self, password: str) -> None:
        """Refuses an empty one, unless that is allowed, and one that no client could send."""
        if not password and not self.core.settings.qms.empty_passwords:
            raise QmsError(PASSWORD_TOO_SHORT, "the password is empty")
        if len(password) > PASSWORD_MAX:
            raise QmsError(FAILURE, f"a password has at most {PASSWORD_MAX} characters")

    def set_password(self, one: BinderyObject, password: str) -> None:
        """Only the hash is kept. A user without an account gets one, and the door ncp."""
        if one.type != NWOT_USER:
            nonce = self.core.random_bytes(NONCE_SIZE)
            change, key = Change(), self.accounts.sealing_key()
            value = password_hash(one.id, password)
            one.stored.password = seal_netware_hash(value, key, nonce, _owner(one))
            self.objects.store(one, change)
            self.core.commit(change)
            return
        self.accounts.sealing_key()  # refuses before anything is changed
        with self.core.one_step():
            account = self._account_of(one)
            doors = tuple(door for door in Door if door in account.doors or door is Door.NCP)
            account = msgspec.structs.replace(account, doors=doors)
            self.accounts.replace(self.accounts.with_netware_password(account, password))

    def _account_of(self, one: BinderyObject) -> Account:
        if one.stored.sid:
            found = self.accounts.of_sid(one.stored.sid)
            assert found is not None
            return found
        groups = (ADMINISTRATORS,) if one.id == SUPERVISOR_ID else ()
        return self.accounts.add(one.name, groups=groups, doors=())

    def sealed_records(self) -> Iterator[SealedRecord]:
        """Yield the passwords of objects other than users."""
        for one in self.objects.by_id.values():
            if one.stored.password:
                opened = partial(open_netware_hash, one.stored.password, owner=_owner(one))
                yield SealedRecord(f"the password of {one.name} (door ncp)", opened)

    # -- accounts

    def sealed_for_account(self, account: Account, password: str) -> bytes:
        """The verifier of an account's ncp door; empty if the bindery cannot have its name."""
        one = self.objects.of_sid(account.sid)
        if one is None:
            return b""
        nonce = self.core.random_bytes(NONCE_SIZE)
        value = password_hash(one.id, password)
        return seal_netware_hash(value, self.accounts.sealing_key(), nonce, account.sid)


def _answers(key: bytes, verifier: bytes | None, answer: bytes) -> bool:
    return verifier is not None and len(answer) == ANSWER_SIZE and answers_to(key, verifier, answer)


def _owner(one: BinderyObject) -> bytes:
    return b"object %d" % one.id


def _wrong_password(name: str) -> QmsError:
    return QmsError(FAILURE, f"the password of {excerpt(name)} is wrong")
