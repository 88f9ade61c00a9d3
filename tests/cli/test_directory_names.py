"""`posthouse directory user|alias|queue`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_der_x509_certificate

from posthouse.security.certificates import make_certificate, make_private_key
from tests.cli.conftest import Posthouse

BETA, ORDERS, SERVICE = (f"5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b{at}" for at in (11, 77, 99))
ADA = "S-1-5-21-1-2-3-1001"


@pytest.fixture(autouse=True)
def nothing_but_us(ph: Posthouse, tmp_path: Path) -> Iterator[None]:
    before = tmp_path / "before.toml"
    assert ph("directory", "export", before).code == 0
    yield
    assert ph("directory", "import", before, "--prune").code == 0


@pytest.fixture
def beta(ph: Posthouse) -> None:
    assert ph("directory", "machine", "add", "BETA", BETA).code == 0
    options = "--label", "Orders", "--type", SERVICE, "--transactional"
    assert ph("directory", "queue", "add", r"BETA\orders", ORDERS, *options).code == 0


@pytest.fixture(scope="module")
def certificate() -> bytes:
    der = make_certificate(make_private_key(1024), "Ada", int(datetime.now(UTC).timestamp()), 9)
    return load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def test_a_user_is_entered_with_certificates_and_taken_out_again(
    ph: Posthouse, tmp_path: Path, certificate: bytes
) -> None:
    file = tmp_path / "ada.pem"
    file.write_bytes(certificate)
    told = ph("directory", "user", "add", ADA, "--name", "Ada", "--certificate", file)
    assert "created" in told.out
    assert "has this already" in ph("directory", "user", "add", "ada", "--certificate", file).out
    listed = ph("directory", "user", "list")
    assert ADA in listed.out
    digest = listed.out.split("CN=Ada")[0].split()[-1]
    assert ph("directory", "user", "list", "--json").value["name"] == "Ada"
    wrong = ph("directory", "user", "remove", "Ada", "--certificate", "")
    assert wrong.code == 2
    assert "32 hexadecimal digits" in wrong.err
    gone = ph("directory", "user", "remove", "Ada", "--certificate", digest)
    assert "changed" in gone.out
    again = ph("directory", "user", "remove", "Ada", "--certificate", digest)
    assert again.code == 1
    assert "directory user list" in again.err
    assert "deleted" in ph("directory", "user", "remove", "ada").out
    assert ph("directory", "user", "list", "--json").out == ""


def test_a_dry_run_enters_nobody(ph: Posthouse) -> None:
    assert "created" in ph("directory", "user", "add", ADA, "--dry-run").out
    assert ph("directory", "user", "list", "--json").out == ""


def test_an_account_here_is_a_user_by_its_name(ph: Posthouse) -> None:
    assert ph("user", "add", "dora", "--no-password").code == 0
    sid = next(one["sid"] for one in ph("user", "list", "--json").lines if one["name"] == "dora")
    assert "dora" in ph("directory", "user", "add", "dora").out
    assert ph("directory", "user", "list", "--json").value["sid"] == sid
    told = ph("directory", "user", "add", "nobody at all")
    assert told.code == 1
    assert "by their SID" in told.err
    assert ph("user", "delete", "dora").code == 0


@pytest.mark.parametrize("content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_without_a_certificate_is_refused(
    ph: Posthouse, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "bad.pem"
    file.write_bytes(content)
    assert ph("directory", "user", "add", ADA, "--certificate", file).code == 1
    assert ph("directory", "user", "add", ADA, "--certificate", tmp_path / "none").code == 1
    assert ph("directory", "user", "list", "--json").out == ""


def test_an_alias_stands_for_a_queue(ph: Posthouse, beta: None) -> None:
    made = ph("directory", "alias", "add", "Till", r"BETA\orders").out
    assert "created" in made
    (alias,) = ph("directory", "alias", "list", "--json").lines
    assert f"DL={alias['guid']}" in made
    assert "created" in ph("directory", "list", "add", "All", "--member", "Till").out
    listed = ph("directory", "alias", "list")
    assert r"BETA\orders" in listed.out
    assert "DL=" in listed.out
    assert ph("directory", "alias", "list", "--json").value["queue"] == r"BETA\orders"
    assert ph("directory", "list", "list", "--json").value["members"] == ["Till"]
    assert "changed" in ph("directory", "alias", "add", "till", "DIRECT=OS:x\\q").out
    assert "deleted" in ph("directory", "alias", "remove", "TILL").out
    nobody = ph("directory", "alias", "remove", "Till")
    assert (nobody.code, "no alias Till" in nobody.err) == (1, True)


def test_an_alias_may_not_be_called_like_a_list(ph: Posthouse, beta: None) -> None:
    assert ph("directory", "list", "add", "All").code == 0
    told = ph("directory", "alias", "add", "all", r"BETA\orders")
    assert told.code == 1
    assert "a list has this name" in told.err


def paths(ph: Posthouse, *options: str) -> list[str]:
    found = ph("directory", "queue", "find", *options, "--json")
    assert found.code == 0, found.err
    return [str(line["path"]) for line in found.lines]


def test_public_queues_are_found_by_what_they_are(ph: Posthouse, beta: None) -> None:
    assert r"BETA\orders" in ph("directory", "queue", "list").out
    here = r"BETA\orders"
    assert paths(ph, "--label", "orders") == [here]
    assert paths(ph, "--type", SERVICE) == [here]
    assert paths(ph, "--machine", "beta") == [here]
    for options in (("--label", "order"), ("--type", BETA), ("--machine", "BET")):
        assert paths(ph, *options) == []


def test_public_queues_are_found_by_their_times(ph: Posthouse, beta: None) -> None:
    long_ago = "2001-01-01"
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for made in ("created", "modified"):
        assert paths(ph, f"--{made}-after", long_ago, f"--{made}-before", later) == [r"BETA\orders"]
        assert paths(ph, f"--{made}-before", long_ago) == []
        assert paths(ph, f"--{made}-after", later) == []
    assert ph("directory", "queue", "find", "--created-after", "soon").code != 0


def test_what_is_left_off_is_said(ph: Posthouse, beta: None) -> None:
    other = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b78"
    assert ph("directory", "queue", "add", r"BETA\others", other).code == 0
    told = ph("directory", "queue", "find", "--machine", "BETA", "--limit", "1")
    assert "1 more match" in told.out
    assert r"BETA\others" not in told.out


def test_public_queues_of_others_are_taken_out(ph: Posthouse, beta: None) -> None:
    assert "deleted" in ph("directory", "queue", "remove", "beta/orders").out
    assert paths(ph) == []


def test_a_public_queue_of_ours_is_made_and_goes_by_itself(ph: Posthouse) -> None:
    own = str(ph("directory", "machine", "list", "--json").value["name"])
    made = ph("queue", "create", rf"{own}\counter", "--label", "Ours")
    assert made.out.startswith(rf"{own}\counter  PUBLIC=")
    assert paths(ph, "--label", "ours") == [rf"{own}\counter"]
    refused = ph("directory", "queue", "remove", rf"{own}\counter")
    assert (refused.code, "Delete the queue itself" in refused.err) == (1, True)
    assert ph("queue", "delete", rf"{own}\counter").code == 0
    assert paths(ph, "--label", "ours") == []


def test_a_queue_that_is_named_again_keeps_what_is_not_said(ph: Posthouse, beta: None) -> None:
    again = ph("directory", "queue", "add", "BETA/orders", ORDERS, "--label", "New")
    assert again.code == 0, again.err
    found = ph("directory", "queue", "list", "--json").value
    assert (found["path"], found["label"], found["type"]) == (r"BETA\orders", "New", SERVICE)
    assert found["transactional"]


def test_nobody_is_taken_for_somebody_of_the_same_name(
    ph: Posthouse, tmp_path: Path, certificate: bytes
) -> None:
    file = tmp_path / "ada.pem"
    file.write_bytes(certificate)
    for sid in (ADA, ADA[:-1] + "2"):
        assert ph("directory", "user", "add", sid, "--name", "Ada").code == 0
    for refused in (
        ph("directory", "user", "add", "Ada", "--certificate", file),
        ph("directory", "user", "remove", "Ada"),
    ):
        assert refused.code == 1
        assert "Name them by their SID" in refused.err
    assert "user list" in ph("directory", "user", "add", "S-1-x").err
