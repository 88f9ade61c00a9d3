"""`posthouse cert`."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography import x509

from posthouse.model.message_values import AES_PROVIDER, ENHANCED_PROVIDER
from posthouse.security.keys import pack_provider_keys
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving
from tests.security.key_ring import certificate, provider_key
from tests.support.certificate_files import bundle, key_pem, pem

GUID = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11"
SID = "S-1-5-21-7-7-7-1000"
QUICK = ("--bits", "1024")


@pytest.fixture(autouse=True)
def alice(ph: Posthouse) -> Iterator[None]:
    ph("user", "add", "alice", "--no-password")
    yield
    ph("user", "delete", "alice")
    for one in ph("cert", "list", "--json").lines:
        ph("cert", "remove", one["id"])


@pytest.mark.spec("MS-MQDMPR 3.1.1.19/1", "MS-MQDMPR 3.1.1.1/24")
def test_certificate_of_a_user_is_made_listed_and_removed(ph: Posthouse) -> None:
    made = ph("cert", "make", "--user", "alice", *QUICK, "--days", "30", "--json").value
    assert (made["kind"], made["owner"], made["subject"]) == ("user", "alice", "CN=alice")
    assert (made["internal"], made["private_key"], made["key_bits"]) == (True, True, 1024)
    assert made["id"] == made["digest"]
    encoded = base64.b64decode(made["certificate"])
    assert x509.load_der_x509_certificate(encoded).subject.rfc4514_string() == "CN=alice"
    assert ph("cert", "list", "--json").value == made
    shown = ph("cert", "list").out
    assert made["id"] in shown
    again = ph("cert", "make", "--user", "alice", *QUICK)
    assert again.code == 1
    assert "MQ_ERROR_INTERNAL_USER_CERT_EXIST" in again.err
    new = ph("cert", "make", "--user", "alice", *QUICK, "--replace", "--json").value
    assert new["id"] != made["id"]
    assert new["id"] in ph("cert", "remove", new["id"], "--dry-run").out
    assert ph("cert", "remove", new["id"]).code == 0
    assert ph("cert", "remove", new["id"]).code == 1
    assert ph("cert", "list", "--json").lines == []


def test_removal_asks_on_a_terminal(ph: Posthouse) -> None:
    made = ph("cert", "make", "--user", "alice", *QUICK, "--json").value
    assert ph("cert", "remove", made["id"], terminal=True, stdin=b"n\n").code == 1
    assert len(ph("cert", "list", "--json").lines) == 1
    assert ph("cert", "remove", made["id"], "--yes", "--json", terminal=True).code == 0


def test_keys_of_the_machine_are_made_once_and_exported(ph: Posthouse, tmp_path: Path) -> None:
    assert ph("cert", "export").code == 1
    made = ph("cert", "make", *QUICK, "--json").value
    assert made["kind"] == "machine"
    assert made["providers"] == [AES_PROVIDER, ENHANCED_PROVIDER]
    assert made["private_key"]
    assert ph("cert", "make", *QUICK).code == 1
    assert ph("cert", "make", *QUICK, "--replace").code == 0
    shown = ph("cert", "export").value
    assert shown["guid"] == made["guid"]
    assert ph("cert", "export", tmp_path / "keys.json").code == 0
    assert msgspec.json.decode((tmp_path / "keys.json").read_bytes()) == shown
    assert ph("cert", "export", tmp_path / "keys.json", "--json").value["guid"] == made["guid"]
    refused = ph("cert", "trust", tmp_path / "keys.json")
    assert refused.code == 1
    assert "itself" in refused.err


def test_exported_keys_of_another_machine_are_trusted(ph: Posthouse, tmp_path: Path) -> None:
    exported = {
        "name": "BETA",
        "guid": GUID,
        "certificate": certificate("beta"),
        "public_keys": pack_provider_keys([provider_key(AES_PROVIDER, "beta")]),
    }
    (tmp_path / "beta.json").write_bytes(msgspec.json.encode(exported))
    made = ph("cert", "trust", tmp_path / "beta.json", "--json").value
    assert (made["owner"], made["guid"], made["private_key"]) == ("BETA", GUID, False)
    assert made["providers"] == [AES_PROVIDER]
    assert ph("cert", "remove", "{" + GUID.upper() + "}").code == 0


def test_the_certificate_of_a_user_is_exported_for_others_to_trust(
    ph: Posthouse, tmp_path: Path
) -> None:
    missing = ph("cert", "export", "--user", "alice")
    assert missing.code == 1
    assert "alice has no certificate here" in missing.err
    (tmp_path / "bob.pem").write_bytes(pem("bob"))
    ph("cert", "import", tmp_path / "bob.pem", "--user", "alice")
    made = ph("cert", "make", "--user", "alice", *QUICK, "--json").value
    shown = ph("cert", "export", "--user", "ALICE").value
    assert (shown["name"], shown["sid"]) == ("alice", made["sid"])
    assert shown["certificate"] == made["certificate"]
    file = tmp_path / "alice.json"
    assert ph("cert", "export", file, "--user", "alice", "--json").value["sid"] == made["sid"]
    assert ph("cert", "remove", made["id"]).code == 0
    trusted = ph("cert", "trust", file, "--json").value
    assert (trusted["id"], trusted["private_key"]) == (made["id"], False)


def test_files_of_windows_are_trusted_by_name_and_guid(ph: Posthouse, tmp_path: Path) -> None:
    keys, der = tmp_path / "keys.bin", tmp_path / "machine.cer"
    keys.write_bytes(pack_provider_keys([provider_key(AES_PROVIDER, "beta")]))
    der.write_bytes(certificate("beta"))
    named = ("--guid", GUID, "--name", "WINDOWS")
    assert ph("cert", "trust", keys, *named, "--json").value["providers"] == [AES_PROVIDER]
    assert ph("cert", "trust", der, *named, "--json").value["subject"] == "CN=beta"
    assert ph("cert", "trust", der, "--guid", GUID).code == 2
    assert ph("cert", "trust", der, "--guid", "17", "--name", "X").code == 2
    assert ph("cert", "trust", der).code == 2


def test_user_of_another_system_is_trusted_by_sid(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "bob.pem").write_bytes(pem("bob"))
    made = ph("cert", "trust", tmp_path / "bob.pem", "--sid", SID, "--json").value
    assert (made["owner"], made["sid"], made["private_key"]) == (SID, SID, False)
    everyone = ph("cert", "trust", tmp_path / "bob.pem", "--sid", "S-1-1-0")
    assert everyone.code == 1
    assert ph("cert", "trust", tmp_path / "bob.pem", "--sid", "bob").code in (1, 2)


def test_certificates_are_imported_in_every_form(ph: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "file"
    for data, password, key in (
        (pem("bob"), None, False),
        (certificate("carol"), None, False),
        (pem("dave") + key_pem("dave"), None, True),
        (bundle("erin", b"secret"), b"secret\n", True),
    ):
        file.write_bytes(data)
        words = ["--password"] if password else []
        made = ph(
            "cert", "import", file, "--user", "alice", *words, "--json", stdin=password or b""
        ).value
        assert (made["owner"], made["private_key"], made["internal"]) == ("alice", key, False)
    piped = ph("cert", "import", "-", "--user", "alice", "--json", stdin=pem("frank"))
    assert piped.value["subject"] == "CN=frank"


def test_what_cannot_be_imported_is_refused(ph: Posthouse, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"rubbish")
    refused = ph("cert", "import", file, "--user", "alice")
    assert refused.code == 1
    assert "MQ_ERROR_INVALID_CERTIFICATE" in refused.err
    assert ph("cert", "import", file, "--user", "nobody").code == 1
    assert ph("cert", "make", "--user", "nobody").code == 1
    assert ph("cert", "import", tmp_path / "none", "--user", "alice").code == 2
    file.write_bytes(b"")
    assert ph("cert", "import", file, "--user", "alice").code == 2
    file.write_bytes(bundle("erin", b"secret"))
    for typed in (b"wrong\n", b""):
        refused = ph("cert", "import", file, "--user", "alice", "--password", stdin=typed)
        assert refused.code in (1, 2)
        assert "wrong" not in refused.err
    assert ph("cert", "import", "-", "--user", "alice", "--password").code == 2
    assert ph("cert", "make", "--bits", "512").code == 2


def test_user_with_a_certificate_sends_signed_to_an_authenticated_queue(
    ph: Posthouse, server: Serving, tmp_path: Path
) -> None:
    ph("queue", "create", "./private$/signed", "--authenticated")
    ph("queue", "grant", "./private$/signed", "alice", "send")
    token = tmp_path / "token"
    made = ph("token", "create", "--user", "alice", "--role", "operate", "--json").value
    token.write_text(made["token"])
    as_alice = ("--url", server.url, "--token-file", token)
    send = ("send", "./private$/signed", "--body", "<order/>")
    assert "MQ_ERROR_MESSAGE_NOT_AUTHENTICATED" in ph(*send, *as_alice).err
    assert "MQ_ERROR_CERTIFICATE_NOT_PROVIDED" in ph(*send, "--sign", *as_alice).err
    ph("cert", "make", "--user", "alice", *QUICK)
    assert ph(*send, "--sign", *as_alice).code == 0
    assert ph(*send, "--sign", "--count", "3", *as_alice).code == 0
    assert ph("send", "./private$/signed", "--sign", "--body", "x").code == 1  # the administrator
    for shown in ph("receive", "./private$/signed", "--count", "4", "--json").lines:
        assert (shown["authenticated"], shown["body_text"]) == (True, "<order/>")
    ph("queue", "delete", "./private$/signed")


def test_encryption_is_a_wish_that_stays_with_the_message(ph: Posthouse) -> None:
    ph("queue", "create", "./private$/sealed", "--privacy", "body")
    assert ph("send", "./private$/sealed", "--body", "clear").code == 1
    assert ph("send", "./private$/sealed", "--body", "secret", "--encrypt").code == 0
    shown = ph("receive", "./private$/sealed", "--json").value
    assert (shown["encrypted"], shown["body_text"]) == (True, "secret")
    ph("queue", "delete", "./private$/sealed")


def test_a_certificate_for_https_is_made_in_the_home(ph: Posthouse, tmp_path: Path) -> None:
    home = ("--home", tmp_path / "new")
    made = ph("cert", "make", "--tls", "alpha.example", "--tls", "127.0.0.1", *home)
    assert made.code == 0
    for section in ("admin", "https"):
        lines = f'[{section}]\ncertificate = "keys/tls.pem"\nprivate_key = "keys/tls.key"\n'
        assert f"\n{lines}" in made.out
    key = tmp_path / "new" / "keys" / "tls.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    context = ssl.create_default_context(cafile=str(key.with_suffix(".pem")))
    context.load_cert_chain(key.with_suffix(".pem"), key)
    (authority,) = context.get_ca_certs()
    names = authority["subjectAltName"]
    assert names == (("DNS", "alpha.example"), ("IP Address", "127.0.0.1"))
    again = ph("cert", "make", "--tls", "alpha.example", *home)
    assert again.code == 2
    assert "--replace" in again.err
    before = key.read_bytes()
    assert ph("cert", "make", "--tls", "alpha.example", "--replace", "--json", *home).value["hosts"]
    assert key.read_bytes() != before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_the_service_can_read_what_root_has_made_in_its_home(
    posthouse: Posthouse, tmp_path: Path
) -> None:
    os.chown(tmp_path, 4711, 4712)
    assert posthouse("cert", "create", "--tls", "alpha.example", "--home", tmp_path).code == 0
    keys = tmp_path / "keys"
    for made in (keys, keys / "tls.pem", keys / "tls.key"):
        found = made.stat()
        assert (found.st_uid, found.st_gid) == (4711, 4712)


def test_a_certificate_for_https_is_for_hosts_and_nobody_else(
    ph: Posthouse, tmp_path: Path
) -> None:
    home = ("--home", tmp_path)
    assert ph("cert", "make", "--tls", "a", "--user", "alice", *home).code == 2
    assert ph("cert", "make", "--tls", "bücher", *home).code == 1
    assert ph("cert", "make", "--tls", "a", "--url", "http://127.0.0.1:1").code == 2
