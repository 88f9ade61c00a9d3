"""Certificates of users, keys of queue managers and what they prove, as records of the log.

The key ring of message security ([MS-MQQB] 3.1.5.8.3, 3.1.7.1.4, 3.1.7.1.5): what was registered
here goes first, then the objects of the directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from posthouse.directory import objects
from posthouse.directory.base import equals
from posthouse.directory.service import DirectoryService
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, TABLE_ACCOUNT, Change
from posthouse.model.bounded_tables import Bounded, require_room
from posthouse.model.errors import (
    AccessDenied,
    CorruptedSecurityData,
    InvalidParameter,
    error_for,
)
from posthouse.security.access import Caller
from posthouse.security.accounts import Account
from posthouse.security.certificates import NONCE_SIZE, open_private_key, seal_private_key
from posthouse.security.key_blobs import public_key_of
from posthouse.security.keys import (
    KEY_EXCHANGE,
    KEY_SIGNATURE,
    PROVIDER_TYPE,
    ProviderKey,
    UserCertificate,
    certificate_digest,
    pack_provider_keys,
    pack_public_key,
    unpack_provider_keys,
    unpack_user_certificates,
)
from posthouse.security.message_security import (
    SENDER_IS_USER,
    MessageSecurity,
    Signer,
    Verified,
    requested_signature,
)
from posthouse.security.registrations import (
    MachineRegistration,
    UserRegistration,
    decode_machine_registration,
    decode_user_registration,
    encode_registration,
)
from posthouse.security.settings import MessageSecuritySettings
from posthouse.security.sids import EVERYONE, format_sid
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.patch import stamp

MQ_ERROR_INTERNAL_USER_CERT_EXIST = 0xC00E002E
CERTIFICATES_MAX: Final = 10_000
SENDERS_MAX: Final = 1024  # callers that are remembered
_USER_KEY = b"certificate:"
_MACHINE_KEY = b"machine:"
_SIGNING_KEY = b"signing:"  # owner of a sealed key only; it lies in the record of the machine


class SealedRecord(NamedTuple):
    """Something that the store keeps sealed with the key file of the home.

    `open` raises CorruptedSecurityData with another key.
    """

    what: str
    open: Callable[[bytes], object]


class Users(Protocol):
    """The accounts of this queue manager, as certificates lead to them."""

    def of_sid(self, sid: bytes) -> Account | None:
        """The account with this security identifier."""
        ...

    def caller(self, name: str) -> Caller:
        """The caller for an account whose identity was proved."""
        ...


class Certificates:
    """Certificates and keys of users and queue managers, and message security that uses them."""

    directory: DirectoryService
    key_file: Callable[[], bytes]  # the sealing key of the home

    def __init__(self, core: Ledger, accounts: Users) -> None:
        self.core = core
        self.accounts = accounts
        self.security = MessageSecurity(self, core.random_bytes)
        self.on_keys: Callable[[], None] = lambda: None  # our own ones have changed
        self._users: dict[bytes, dict[bytes, UserRegistration]] = {}  # by SID, then by key
        self._machines: dict[bytes, MachineRegistration] = {}
        self._opened: dict[bytes, RSAPrivateKey | None] = {}  # None: it cannot be
        self._senders: Bounded[tuple[bytes, bytes, int], Caller] = Bounded(SENDERS_MAX)

    def load(self) -> None:
        """Everything the store kept."""
        for key, value in self.core.state.of_table(TABLE_ACCOUNT):
            if key.startswith(_USER_KEY):
                user = decode_user_registration(value)
                self._users.setdefault(user.sid, {})[key] = user
            elif key.startswith(_MACHINE_KEY):
                machine = decode_machine_registration(value)
                self._machines[machine.guid] = machine

    @property
    def key_bits(self) -> int:
        """How long new keys are."""
        return self.security.settings.key_bits

    @property
    def weak_algorithms(self) -> bool:
        """Whether keys of the weaker provider are made, too."""
        return self.security.settings.weak_algorithms

    def configure(self, settings: MessageSecuritySettings) -> None:
        """`[security]` of the configuration."""
        self.security.configure(settings)

    # -- certificates of users

    def users(self) -> list[UserRegistration]:
        """Every certificate of a user, the oldest first."""
        return sorted(self._all_users(), key=lambda one: (one.created_s, one.digest))

    def _all_users(self) -> Iterator[UserRegistration]:
        return chain.from_iterable(mine.values() for mine in self._users.values())

    def of_user(self, sid: bytes) -> list[UserRegistration]:
        """The certificates of one user."""
        return list(self._users.get(sid, {}).values())

    def register(
        self,
        sid: bytes,
        certificate: bytes,
        private_key: RSAPrivateKey | None = None,
        *,
        internal: bool = False,
    ) -> UserRegistration:
        """From now on a signature by this certificate proves that the user sent the message."""
        if internal and any(one.internal for one in self.of_user(sid)):
            raise error_for(
                MQ_ERROR_INTERNAL_USER_CERT_EXIST, "the user has an internal certificate already"
            )
        registration = UserRegistration(
            sid=sid,
            certificate=certificate,
            identifier=self.core.new_guid(),
            created_s=self.core.utc,
            internal=internal,
        ).checked()
        key = _USER_KEY + sid + registration.digest
        if key in self._users.get(sid, {}):
            raise InvalidParameter("this certificate is registered for the user already")
        require_room(sum(map(len, self._users.values())), CERTIFICATES_MAX, "certificates")
        if private_key is not None:
            sealed = self._sealed(private_key, key)
            registration = msgspec.structs.replace(registration, sealed_key=sealed)
        self._users.setdefault(sid, {})[key] = registration
        self._define(key, encode_registration(registration))
        return registration

    def withdraw(self, registration: UserRegistration) -> None:
        """What it signed is no longer believed."""
        key = _USER_KEY + registration.sid + registration.digest
        mine = self._users[registration.sid]
        del mine[key]
        if not mine:
            del self._users[registration.sid]
        self._opened.pop(key, None)
        self._define(key, None)

    def withdraw_all(self, sid: bytes) -> None:
        """Withdraws every certificate of a user that was deleted."""
        for registration in self.of_user(sid):
            self.withdraw(registration)

    # -- keys of queue managers

    def machines(self) -> list[MachineRegistration]:
        """Every queue manager whose keys are known, by name."""
        return sorted(self._machines.values(), key=lambda one: (one.name.casefold(), one.guid))

    def machine(self, guid: bytes) -> MachineRegistration | None:
        """What is known of a queue manager."""
        return self._machines.get(guid)

    def publish(
        self,
        private_keys: Mapping[str, RSAPrivateKey],
        certificate: bytes,
        signing_keys: Mapping[str, RSAPrivateKey],
    ) -> MachineRegistration:
        """Our own keys by provider; what was sealed for older ones can no longer be opened."""
        key = _MACHINE_KEY + self.core.guid
        sealed = {
            name: self._sealed(private, key + name.encode())
            for name, private in private_keys.items()
        }
        own = MachineRegistration(
            guid=self.core.guid,
            name=self.core.settings.computer_name,
            created_s=self.core.utc,
            certificate=certificate,
            public_keys=_published(private_keys, KEY_EXCHANGE),
            sealed_keys=sealed,
        ).checked()
        self._opened.clear()
        return self._with_signing_keys(own, signing_keys)

    def providers_without_signing_key(self) -> list[str]:
        """Those of our keys that version 0.1 made: it published them for signatures as well."""
        own = self._machines.get(self.core.guid)
        if own is None:
            return []
        return [name for name in own.sealed_keys if name not in own.sealed_signing_keys]

    def add_signing_keys(self, signing_keys: Mapping[str, RSAPrivateKey]) -> None:
        """Completes our own keys; those for encryption stay as they are."""
        own = self._machines.get(self.core.guid)
        if own is not None and self.providers_without_signing_key():
            self._with_signing_keys(own, signing_keys)

    def _with_signing_keys(
        self, own: MachineRegistration, signing_keys: Mapping[str, RSAPrivateKey]
    ) -> MachineRegistration:
        sealed = {
            name: self._sealed(private, _SIGNING_KEY + self.core.guid + name.encode())
            for name, private in signing_keys.items()
        }
        own = msgspec.structs.replace(
            own,
            signing_keys=_published(signing_keys, KEY_SIGNATURE),
            sealed_signing_keys=sealed,
        )
        self._keep_machine(own)
        self.on_keys()
        return own

    def own_public_keys(self) -> bytes:
        """What others encrypt messages for us with; empty while we have no keys."""
        own = self._machines.get(self.core.guid)
        return b"" if own is None else own.public_keys

    def own_signing_keys(self) -> bytes:
        """PublicSigningKeyList; empty while we have no keys."""
        own = self._machines.get(self.core.guid)
        return b"" if own is None else own.signing_keys

    def trust(
        self, guid: bytes, name: str, certificate: bytes, public_keys: bytes
    ) -> MachineRegistration:
        """Another queue manager: who it is, and what messages for it are encrypted with."""
        if guid == self.core.guid:
            raise InvalidParameter("these are the keys of this queue manager itself")
        others = self._machines.keys() - {guid}
        require_room(len(others), CERTIFICATES_MAX, "machines whose keys are known")
        machine = MachineRegistration(
            guid=guid,
            name=name,
            created_s=self.core.utc,
            certificate=certificate,
            public_keys=public_keys,
        ).checked()
        self._keep_machine(machine)
        return machine

    def distrust(self, machine: MachineRegistration) -> None:
        """Its keys are used no more."""
        del self._machines[machine.guid]
        self._opened.clear()
        self._define(_MACHINE_KEY + machine.guid, None)

    # -- the key ring of message security

    def certificates_of(self, sid: bytes) -> Iterator[UserCertificate]:
        """Those of a user, [MS-MQQB] 3.1.5.8.3: registered here, then those of the directory."""
        for one in self.of_user(sid):
            yield UserCertificate.of(one.certificate, one.identifier)
        yield from self._of_directory_user(sid)

    def _of_directory_user(self, sid: bytes) -> list[UserCertificate]:
        """As they were known last: a directory that is away for a while costs no signed message."""
        found = self.directory.known(
            objects.User, equals("security_identifier", sid), self.core.now_ms
        )
        return (
            [] if found.value is None else list(unpack_user_certificates(found.value.certificates))
        )

    def certificates_of_machine(self, guid: bytes) -> list[UserCertificate]:
        """Those of a queue manager (decision 75)."""
        machine = self._machines.get(guid)
        if machine is None or not machine.certificate:
            return []
        return [UserCertificate.of(machine.certificate)]

    def is_registered(self, certificate: bytes) -> bool:
        """Whether it belongs to anybody here, or to a user of the directory."""
        if any(one.certificate == certificate for one in self._all_users()):
            return True
        found = self.directory.known(
            objects.User,
            equals("certificate_digest_list", certificate_digest(certificate)),
            self.core.now_ms,
        ).value
        # The digest finds it, and is not proof of it.
        known = () if found is None else unpack_user_certificates(found.certificates)
        return any(one.certificate == certificate for one in known)

    def public_keys(self, guid: bytes) -> tuple[ProviderKey, ...]:
        """What a queue manager has published, [MS-MQQB] 3.1.7.1.5."""
        machine = self._machines.get(guid)
        if machine is not None and machine.public_keys:
            return machine.provider_keys
        found = self.directory.known(
            objects.QueueManager, equals("identifier", guid), self.core.now_ms
        )
        keys = b"" if found.value is None else found.value.public_encryption_key_list
        return unpack_provider_keys(keys)

    def private_key(self, provider: str) -> RSAPrivateKey | None:
        """Our own key pair of a provider."""
        own = self._machines.get(self.core.guid)
        sealed = None if own is None else own.sealed_keys.get(provider)
        if sealed is None:
            return None
        return self._opened_key(_MACHINE_KEY + self.core.guid + provider.encode(), sealed)

    def signer(self, sid: bytes) -> Signer | None:
        """What signs for a user: the newest certificate whose private key is here."""
        mine = [one for one in self.of_user(sid) if one.sealed_key]
        for one in sorted(mine, key=lambda one: one.created_s, reverse=True):
            key = self._opened_key(_USER_KEY + sid + one.digest, one.sealed_key)
            if key is not None:
                return Signer(key, one.certificate)
        return None

    def signed(
        self, packet: bytes, seen: PacketSummary, caller: Caller
    ) -> tuple[bytes, PacketSummary, int]:
        """A client's packet with the signature it asks for, and what that is worth in its row.

        Signing the Packet ([MS-MQQB] 3.1.7.1.4) is done once, when the message comes in: what the
        signature covers no longer changes, and who sends it is known now.
        """
        kind = requested_signature(packet, seen)
        if kind is None:
            return packet, seen, 0
        core = self.core
        stamped = stamp(packet, source_guid=core.guid, ordinal=0, sent_time=core.utc, seen=seen)
        made = self.security.sign(stamped, caller.sid, kind)
        return made, summarize(made), FLAG_AUTHENTICATED

    # -- who sent a message

    def sender(self, verified: Verified) -> Caller:
        """On whose behalf a received message is put into its queue (decisions 1 and 2).

        The same sender gives the same caller, so that their rights are looked up once.
        """
        sid = verified.proven_sid
        if sid:
            account = self.accounts.of_sid(sid)
            if account is not None:
                if account.disabled:
                    raise AccessDenied(f"the user {account.name} is disabled")
                return self.accounts.caller(account.name)
        name = sid, verified.sender_id, verified.sender_type if verified.authenticated else 0
        caller = self._senders.get(name)
        if caller is None:
            caller = self._senders[name] = _caller(verified)
        return caller

    # -- private keys

    def sealed_records(self) -> Iterator[SealedRecord]:
        """Yield what is sealed of the keys of this queue manager and of users."""
        guid, own = self.core.guid, self._machines.get(self.core.guid)
        if own is not None:
            what = "the keys of this queue manager"
            for owner, sealed in (
                (_MACHINE_KEY + guid, own.sealed_keys),
                (_SIGNING_KEY + guid, own.sealed_signing_keys),
            ):
                for name, record in sealed.items():
                    yield SealedRecord(
                        what, partial(open_private_key, record, owner=owner + name.encode())
                    )
        for one in self._all_users():
            if one.sealed_key:
                account = self.accounts.of_sid(one.sid)
                what = (
                    f"a signing key of {format_sid(one.sid) if account is None else account.name}"
                )
                owner = _USER_KEY + one.sid + one.digest
                yield SealedRecord(what, partial(open_private_key, one.sealed_key, owner=owner))

    def _sealed(self, private_key: RSAPrivateKey, owner: bytes) -> bytes:
        nonce = self.core.random_bytes(NONCE_SIZE)
        return seal_private_key(private_key, self.key_file(), nonce, owner)

    def _opened_key(self, owner: bytes, sealed: bytes) -> RSAPrivateKey | None:
        """The private key of a record; None, and an event, where the key file is another."""
        if owner not in self._opened:
            try:
                self._opened[owner] = open_private_key(sealed, self.key_file(), owner)
            except CorruptedSecurityData as error:
                self._opened[owner] = None
                self.core.event("private_key_unreadable", cause=str(error))
        return self._opened.get(owner)

    def _keep_machine(self, machine: MachineRegistration) -> None:
        self._machines[machine.guid] = machine
        self._define(_MACHINE_KEY + machine.guid, encode_registration(machine))

    def forget(self) -> None:
        """Keys, certificates or users have changed, here or in the directory."""
        self.security.forget()
        self._senders.clear()

    def _define(self, key: bytes, value: bytes | None) -> None:
        """One atomic step; whatever was remembered of keys and senders is forgotten."""
        self.forget()
        change = Change()
        self.core.define(TABLE_ACCOUNT, key, value, change)
        self.core.commit(change)


def _published(private_keys: Mapping[str, RSAPrivateKey], algorithm: int) -> bytes:
    """MQDSPUBLICKEYS: the public halves by provider, for one use."""
    return pack_provider_keys(
        ProviderKey(
            name,
            PROVIDER_TYPE[name],
            pack_public_key(public_key_of(private.public_key(), algorithm)),
        )
        for name, private in private_keys.items()
    )


def _caller(verified: Verified) -> Caller:
    """A sender who has no account here."""
    if verified.proven_sid:
        return Caller.user(verified.proven_sid, format_sid(verified.proven_sid))
    if verified.authenticated:
        # [MS-MQQB] 3.1.5.8.3: a queue manager signed, or a signer without an account: counts as
        # everyone.
        return Caller(EVERYONE, "everyone", frozenset((EVERYONE,)), False, False)
    if verified.sender_type == SENDER_IS_USER:
        return Caller.unverified(verified.sender_id)
    return Caller.anonymous()
