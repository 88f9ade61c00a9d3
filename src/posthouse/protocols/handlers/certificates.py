"""Certificates of users and keys of queue managers. For administrators only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from posthouse.api.certificates import (
    CertificateImportBody,
    CertificateJson,
    CertificateListJson,
    CertificateMakeBody,
    CertificateParams,
    CertificateTrustBody,
    MachineKeysJson,
)
from posthouse.api.types import Done, Nothing, UserParams
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import InvalidCertificate, InvalidParameter, QueueError
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.message_json import time_text
from posthouse.model.message_values import AES_PROVIDER, BASE_PROVIDER, ENHANCED_PROVIDER
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.refusals import NoSuchCertificate, NoSuchUser
from posthouse.protocols.handlers.request_steps import Steps, at_once
from posthouse.security.accounts import Account
from posthouse.security.certificates import (
    CertificateFacts,
    KeyPair,
    certificate_facts,
    make_certificate,
    make_private_key,
    make_private_keys,
    read_key_pair,
)
from posthouse.security.registrations import MachineRegistration, UserRegistration
from posthouse.security.sids import format_sid, parse_sid

STRONG_PROVIDERS: Final = (AES_PROVIDER, ENHANCED_PROVIDER)
T = TypeVar("T")


def list_certificates(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> CertificateListJson:
    """Lists the certificates of users and the keys of queue managers."""
    context.require_administrator()
    certificates = manager.certificates
    machines = [_machine_json(manager, one) for one in certificates.machines()]
    users = [_user_json(manager, one) for one in certificates.users()]
    return CertificateListJson(certificates=machines + users)


def _user_json(manager: QueueManager, one: UserRegistration) -> CertificateJson:
    account = manager.accounts.of_sid(one.sid)
    sid = format_sid(one.sid)
    return _json(
        one.digest.hex(),
        one.certificate,
        kind="user",
        owner=sid if account is None else account.name,
        sid=sid,
        internal=one.internal,
        private_key=bool(one.sealed_key),
        created_s=one.created_s,
    )


def _machine_json(manager: QueueManager, one: MachineRegistration) -> CertificateJson:
    guid = format_guid(one.guid)
    return _json(
        guid,
        one.certificate,
        kind="machine",
        owner=one.name,
        guid=guid,
        private_key=bool(one.sealed_keys),
        providers=[key.provider_name for key in one.provider_keys],
        created_s=one.created_s,
    )


def _facts(certificate: bytes) -> CertificateFacts | None:
    try:
        return certificate_facts(certificate) if certificate else None
    except InvalidCertificate:
        return None


def _json(
    identifier: str,
    certificate: bytes,
    *,
    kind: str,
    owner: str,
    created_s: int,
    private_key: bool,
    sid: str | None = None,
    guid: str | None = None,
    internal: bool = False,
    providers: list[str] | None = None,
) -> CertificateJson:
    facts = _facts(certificate)
    return CertificateJson(
        id=identifier,
        kind="user" if kind == "user" else "machine",
        owner=owner,
        sid=sid,
        guid=guid,
        subject=facts and facts.subject,
        issuer=facts and facts.issuer,
        digest=facts and facts.digest.hex(),
        fingerprint=facts and facts.fingerprint.hex(),
        key_bits=facts and facts.key_bits,
        not_before=facts and time_text(facts.not_before_s),
        not_after=facts and time_text(facts.not_after_s),
        internal=internal,
        private_key=private_key,
        providers=providers or [],
        certificate=certificate,
        created_time=time_text(created_s),
    )


def _account(manager: QueueManager, name: str) -> Account:
    try:
        return manager.accounts.find(name)
    except QueueError:
        raise NoSuchUser("there is no user of that name") from None


def _offloaded(context: Context, work: Callable[[], T]) -> Steps[T]:
    """Slow work outside the engine."""
    held: list[T] = []
    yield context.services.offload(lambda: held.append(work()))
    (value,) = held
    return value


class _Wanted(NamedTuple):
    """What is to be made, by the engine's answer."""

    name: str
    bits: int
    utc_s: int
    providers: tuple[str, ...]


def make_keys(
    context: Context, params: Nothing, body: CertificateMakeBody
) -> Steps[CertificateJson]:
    """Makes a certificate for a user, or the keys and the certificate of this queue manager.

    The private keys stay here, sealed with the key file of the home.
    """

    def wanted(manager: QueueManager) -> _Wanted:
        context.require_administrator()
        certificates = manager.certificates
        bits = certificates.key_bits if body.bits is None else body.bits
        utc_s = manager.machine.utc
        if body.user is not None:
            return _Wanted(_account(manager, body.user).name, bits, utc_s, ())
        if certificates.machine(manager.machine.identifier) is not None and not body.replace:
            raise InvalidParameter(
                "this queue manager has its keys already",
                "--replace makes new ones; messages encrypted for the old ones are then lost.",
            )
        weak = (BASE_PROVIDER,) if certificates.weak_algorithms else ()
        name = manager.machine.settings.computer_name
        return _Wanted(name, bits, utc_s, STRONG_PROVIDERS + weak)

    what = yield from at_once(wanted)
    if body.user is not None:
        pair = yield from _offloaded(context, lambda: _make_pair(what, body.days))
        return (yield from at_once(lambda m: _register(m, context, body, pair)))
    keys = yield from _offloaded(context, lambda: make_private_keys(what.providers, what.bits))
    signing = yield from _offloaded(context, lambda: make_private_keys(what.providers, what.bits))
    certificate = make_certificate(signing[AES_PROVIDER], what.name, what.utc_s, body.days)
    return (yield from at_once(lambda m: _publish(m, context, keys, certificate, signing)))


def _make_pair(what: _Wanted, days: int) -> KeyPair:
    key = make_private_key(what.bits)
    return KeyPair(make_certificate(key, what.name, what.utc_s, days), key)


def _register(
    manager: QueueManager, context: Context, body: CertificateMakeBody, pair: KeyPair
) -> CertificateJson:
    assert body.user is not None
    account = _account(manager, body.user)
    certificates = manager.certificates
    if body.replace:
        for old in certificates.of_user(account.sid):
            if old.internal:
                certificates.withdraw(old)
    made = certificates.register(account.sid, pair.certificate, pair.private_key, internal=True)
    context.tell(manager, "certificate_made", user=account.name, digest=made.digest.hex())
    return _user_json(manager, made)


def _publish(
    manager: QueueManager,
    context: Context,
    keys: dict[str, RSAPrivateKey],
    certificate: bytes,
    signing: dict[str, RSAPrivateKey],
) -> CertificateJson:
    made = manager.certificates.publish(keys, certificate, signing)
    context.tell(manager, "machine_keys_made", providers=len(keys))
    return _machine_json(manager, made)


def import_certificate(
    context: Context, params: UserParams, body: CertificateImportBody
) -> Steps[CertificateJson]:
    """Registers a certificate of a user, with its private key if the file holds it."""

    def check(manager: QueueManager) -> None:
        context.require_administrator()
        _account(manager, params.name)

    def register(manager: QueueManager) -> CertificateJson:
        context.require_administrator()
        account = _account(manager, params.name)
        made = manager.certificates.register(account.sid, pair.certificate, pair.private_key)
        context.tell(manager, "certificate_imported", user=account.name, digest=made.digest.hex())
        return _user_json(manager, made)

    yield from at_once(check)
    password = None if body.password is None else body.password.encode()
    pair = yield from _offloaded(context, lambda: read_key_pair(body.file, password))
    return (yield from at_once(register))


def trust_certificate(
    context: Context, params: Nothing, body: CertificateTrustBody
) -> Steps[CertificateJson]:
    """Trusts a certificate of a user elsewhere, or certificate and keys of a queue manager."""

    def trust(manager: QueueManager) -> CertificateJson:
        context.require_administrator()
        certificates = manager.certificates
        if body.sid is not None:
            sid = parse_sid(body.sid)
            user = certificates.register(sid, certificate)
            context.tell(manager, "certificate_trusted", sid=body.sid, digest=user.digest.hex())
            return _user_json(manager, user)
        assert body.guid is not None
        assert body.name is not None
        guid = parse_guid(body.guid)
        machine = certificates.trust(guid, body.name, certificate, body.public_keys or b"")
        context.tell(manager, "machine_trusted", machine=machine.name, guid=body.guid)
        return _machine_json(manager, machine)

    _check_trust(body)
    yield from at_once(lambda manager: context.require_administrator())
    certificate = b""
    if body.certificate is not None:
        data = body.certificate
        pair = yield from _offloaded(context, lambda: read_key_pair(data))
        certificate = pair.certificate
    return (yield from at_once(trust))


def _check_trust(body: CertificateTrustBody) -> None:
    """Either a user and a certificate, or a machine and something of it."""
    machine = body.guid is not None or body.name is not None or body.public_keys is not None
    if (body.sid is not None) == machine:
        raise InvalidParameter("name either a user by sid, or a queue manager by guid and name")
    if body.sid is not None and body.certificate is None:
        raise InvalidParameter("there is no certificate of the user")
    if machine and (body.guid is None or body.name is None):
        raise InvalidParameter("a queue manager is trusted by its guid and its name")


def export_keys(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> MachineKeysJson:
    """Shows certificate and public keys of this queue manager, for others to trust."""
    context.require_administrator()
    own = manager.certificates.machine(manager.machine.identifier)
    if own is None:
        raise NoSuchCertificate(
            "this queue manager has no keys yet", "Make them with `posthouse cert create`."
        )
    return MachineKeysJson(
        name=own.name,
        guid=format_guid(own.guid),
        certificate=own.certificate,
        public_keys=own.public_keys,
    )


def remove_certificate(
    manager: QueueManager, context: Context, params: CertificateParams, body: Nothing
) -> Done:
    """Trusts a certificate of a user, or the keys of a queue manager, no more."""
    context.require_administrator()
    certificates = manager.certificates
    if "-" in params.id:
        machine = certificates.machine(parse_guid(params.id))
        if machine is None:
            raise NoSuchCertificate("no keys of such a queue manager are known")
        certificates.distrust(machine)
    else:
        found = [one for one in certificates.users() if one.digest.hex() == params.id]
        if not found:
            raise NoSuchCertificate("there is no certificate of this digest")
        for one in found:
            certificates.withdraw(one)
    context.tell(manager, "certificate_removed", id=params.id)
    return Done()
