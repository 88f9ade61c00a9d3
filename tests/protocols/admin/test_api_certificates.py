"""Certificates and keys over the API."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509 import load_der_x509_certificate

from posthouse.model.errors import CorruptedSecurityData
from posthouse.model.guids import format_guid
from posthouse.model.message_values import AES_PROVIDER, BASE_PROVIDER, ENHANCED_PROVIDER
from posthouse.security.key_blobs import public_key_of
from posthouse.security.keys import (
    KEY_EXCHANGE,
    KEY_SIGNATURE,
    pack_provider_keys,
    unpack_provider_keys,
    unpack_public_key,
)
from posthouse.security.settings import MessageSecuritySettings
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api
from tests.security.key_ring import certificate, provider_key

PATH = "/api/v1/certificates"
TRUST = "/api/v1/trust"
GUID = "01234567-89ab-cdef-0123-456789abcdef"
SID = "S-1-5-21-7-7-7-1000"


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def unlock(rig: ApiRig) -> None:
    rig.desk.manager.certificates.key_file = lambda: b"s" * 32


KEYS = text(pack_provider_keys([provider_key(AES_PROVIDER, "beta")]))
MACHINE = {"guid": GUID, "name": "BETA", "public_keys": KEYS}


def test_a_message_over_the_api_is_signed_and_encrypted(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        unlock(rig)
        await rig.create(authentication=True)
        token = await rig.user("bob", administrator=True)
        assert (await rig.post(PATH, {"user": "bob", "bits": 1024})).status == 201
        once = {"series": "0123456789abcdef" * 2, "number": 1}
        asked = {"body_text": "<order/>", "label": "signed", "sign": True}
        refused = await rig.post(f"{at()}/messages", {"label": "unsigned"}, token=token)
        assert (refused.status, "NOT_AUTHENTICATED" in refused.text) == (422, True), refused
        for _ in range(2):
            sent = await rig.post(f"{at()}/messages", {**asked, "once": once}, token=token)
            assert sent.status in (200, 201), sent
        (message,) = (await rig.get(f"{at()}/messages")).json["messages"]
        assert (message["authenticated"], message["label"]) == (True, "signed")
        assert (message["id"], message["body_text"]) == (sent.json["id"], "<order/>")
        away, encrypted = rf"PRIVATE={GUID}\00000003", {"body_text": "x", "encrypt": True}
        direct = at(r"DIRECT=OS:BETA\private$\orders")
        refused = await rig.post(f"{direct}/messages", encrypted)
        assert "DOES_NOT_SUPPORT_ENCRYPTION" in refused.text
        assert (await rig.post(TRUST, MACHINE)).status in (200, 201)
        sent = await rig.post(f"{at(away)}/messages", encrypted)
        assert sent.status in (200, 201), sent
        (message,) = (await rig.get(f"{at(away)}/messages")).json["messages"]
        assert message["encrypted"]
        both = {"sign": True, "dead_letter_queue": ORDERS}
        refused = await rig.post(f"{at()}/messages", both, token=token)
        assert (refused.status, "neither signed" in refused.text) == (422, True)
        several = rf"{away},DIRECT=OS:GAMMA\private$\orders"
        refused = await rig.post(f"{at(several)}/messages", {"encrypt": True})
        assert (refused.status, "one queue" in refused.text) == (422, True)

    with_api(tmp_path, work)


def test_a_user_gets_a_certificate_that_signs_for_him(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        unlock(rig)
        await rig.user("bob")
        made = await rig.post(PATH, {"user": "bob", "bits": 1024})
        assert made.status == 201
        certificates = rig.desk.manager.certificates
        sid = rig.desk.manager.accounts.find("bob").sid
        assert certificates.signer(sid) is not None
        listed = await rig.get(PATH)
        assert listed.json == {"certificates": [made.json]}
        assert "PRIVATE" not in listed.text
        assert (await rig.ask("DELETE", f"{PATH}/{made.json['id']}")).json == {"done": True}
        assert (await rig.ask("DELETE", f"{PATH}/{made.json['id']}")).status == 404
        assert certificates.signer(sid) is None

    with_api(tmp_path, work)


@pytest.mark.spec("MS-MQDMPR 3.1.3/6", "MS-MQDMPR 3.1.3/7")
def test_each_provider_has_an_encryption_key_and_another_one_for_signatures(
    tmp_path: Path,
) -> None:
    async def work(rig: ApiRig) -> None:
        unlock(rig)
        await rig.post(PATH, {})
        own = rig.desk.manager.directory.own_queue_manager()
        lists = own.public_encryption_key_list, own.public_signing_key_list
        encrypting, signing = (unpack_provider_keys(one) for one in lists)
        assert [one.provider_name for one in encrypting] == [AES_PROVIDER, ENHANCED_PROVIDER]
        assert [one.provider_name for one in signing] == [AES_PROVIDER, ENHANCED_PROVIDER]
        keys = [unpack_public_key(one.blob) for one in (*encrypting, *signing)]
        assert [one.algorithm for one in keys] == [KEY_EXCHANGE] * 2 + [KEY_SIGNATURE] * 2
        assert len({one.modulus for one in keys}) == 4
        assert {one.bit_length for one in keys} == {2048}
        shown = (await rig.get("/api/v1/machine-keys")).json
        certified = load_der_x509_certificate(base64.b64decode(shown["certificate"])).public_key()
        assert isinstance(certified, RSAPublicKey)
        assert public_key_of(certified, KEY_SIGNATURE) == keys[2]
        assert base64.b64decode(shown["public_keys"]) == own.public_encryption_key_list

    with_api(tmp_path, work)


@pytest.mark.spec("MS-MQQB 3.1.7.1.5/4", "MS-MQDMPR 3.1.3/6", "MS-MQDMPR 3.1.3/7")
def test_keys_of_the_machine_are_those_of_the_providers_that_are_allowed(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        unlock(rig)
        strong = await rig.post(PATH, {})
        assert strong.json["guid"] == format_guid(rig.desk.manager.machine.identifier)
        assert strong.json["key_bits"] == 2048
        assert strong.json["providers"] == [AES_PROVIDER, ENHANCED_PROVIDER]
        certificates = rig.desk.manager.certificates
        keys = {certificates.private_key(name) for name in strong.json["providers"]}
        assert {key.key_size for key in keys if key is not None} == {2048}
        assert len(keys) == 2
        certificates.configure(MessageSecuritySettings(weak_algorithms=True, key_bits=1024))
        weak = await rig.post(PATH, {"replace": True})
        assert len(weak.json["providers"]) == 3
        assert BASE_PROVIDER in weak.json["providers"]
        shown = await rig.get("/api/v1/machine-keys")
        assert base64.b64decode(shown.json["certificate"]) == (
            certificates.machines()[0].certificate
        )

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (MACHINE, 201),
        (MACHINE | {"certificate": text(certificate("beta"))}, 201),
        ({"sid": SID, "certificate": text(certificate("beta"))}, 201),
        ({}, 422),
        ({"sid": SID}, 422),
        ({"guid": GUID}, 422),
        ({"guid": GUID, "name": "BETA"}, 422),
        (MACHINE | {"sid": SID}, 422),
        (MACHINE | {"public_keys": text(b"rubbish")}, 422),
        (MACHINE | {"certificate": text(b"rubbish")}, 422),
        (MACHINE | {"name": "a\nb"}, 422),
        (MACHINE | {"guid": "00000000-0000-0000-0000-000000000000"}, 422),
        ({"sid": "S-1-1-0", "certificate": text(certificate("beta"))}, 422),
        ({"sid": "S-1-x", "certificate": text(certificate("beta"))}, 422),
        ({"sid": "nobody", "certificate": text(certificate("beta"))}, 400),
        (MACHINE | {"more": 1}, 400),
    ],
)
def test_trust_is_for_a_user_or_for_a_machine(
    tmp_path: Path, body: dict[str, object], status: int
) -> None:
    async def work(rig: ApiRig) -> None:
        assert (await rig.post(TRUST, body)).status == status
        assert len((await rig.get(PATH)).json["certificates"]) == (status == 201)

    with_api(tmp_path, work)


def test_nobody_but_an_administrator_sees_or_changes_certificates(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = rig.tokens["operate"]
        for method, path in (
            ("GET", PATH),
            ("POST", PATH),
            ("POST", "/api/v1/users/bob/certificates"),
            ("POST", TRUST),
            ("GET", "/api/v1/machine-keys"),
            ("DELETE", f"{PATH}/{GUID}"),
        ):
            reply = await rig.ask(method, path, {} if method == "POST" else None, token=token)
            assert reply.status == 403

    with_api(tmp_path, work)


def damaged_key_file() -> bytes:
    raise CorruptedSecurityData("the key file is damaged")


def test_without_a_key_file_no_private_keys_are_made(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        rig.desk.manager.certificates.key_file = damaged_key_file
        refused = await rig.post(PATH, {"bits": 1024})
        assert refused.status == 422
        assert refused.json["error"]["name"] == "MQ_ERROR_CORRUPTED_SECURITY_DATA"

    with_api(tmp_path, work)
