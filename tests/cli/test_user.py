"""`posthouse user`."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from posthouse.cli import user
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving


@pytest.fixture(autouse=True)
def nobody(ph: Posthouse) -> Iterator[None]:
    yield
    for line in ph("user", "list", "--json").lines:
        ph("user", "delete", line["name"])


def test_a_user_comes_with_a_password_from_standard_input(ph: Posthouse) -> None:
    added = ph("user", "add", "alice", "--doors", "http,rpc", "--json", stdin=b"secret\n").value
    assert (added["name"], added["doors"], added["password"]) == ("alice", ["http", "rpc"], True)
    assert added["sid"].startswith("S-1-5-21-")


@pytest.mark.parametrize(("options", "stdin"), [([], b""), ([], b"\n"), (["--no-password"], b"x")])
def test_a_user_may_have_no_password(ph: Posthouse, options: list[str], stdin: bytes) -> None:
    added = ph("user", "add", "bob", *options, stdin=stdin)
    assert "doors http, no password" in added.out


def test_no_option_takes_a_password(ph: Posthouse) -> None:
    assert ph("user", "add", "bob", "--password", "secret").code == 2
    assert ph("user", "passwd", "bob", "secret").code == 2


def test_a_person_types_the_password_twice(ph: Posthouse, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["one", "one", "one", "two"])
    monkeypatch.setattr(user.getpass, "getpass", lambda prompt: next(typed))
    assert ph("user", "add", "alice", "--json", terminal=True).value["password"]
    assert ph("user", "passwd", "alice", terminal=True).code == 2


def test_a_name_is_taken_once(ph: Posthouse) -> None:
    ph("user", "add", "alice")
    refused = ph("user", "add", "ALICE")
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_ILLEGAL_USER (0xC00E0011): ")
    assert ph("user", "add", "\x1b[2J").code == 1


def test_a_user_changes(ph: Posthouse) -> None:
    ph("user", "add", "alice")
    changed = ph("user", "set", "alice", "--disabled", "--administrator", "--doors", "ncp")
    assert changed.out.endswith("doors ncp, administrator, no password, disabled\n")
    changed = ph("user", "set", "alice", "--enabled", "--no-administrator", "--doors", "")
    assert changed.out.endswith("doors none, no password\n")
    assert ph("user", "set", "alice").code == 2
    assert ph("user", "set", "alice", "--doors", "window").code == 2


def test_the_list_tells_which_doors_have_no_password(ph: Posthouse) -> None:
    ph("user", "add", "alice", "--doors", "http,rpc", stdin=b"secret\n")
    assert "doors http,rpc\n" in ph("user", "list").out.replace(" \n", "\n")
    ph("user", "set", "alice", "--doors", "http")
    changed = ph("user", "set", "alice", "--doors", "http,rpc")
    assert changed.out.endswith("doors http,rpc, no password for rpc yet\n")
    ph("user", "passwd", "alice", stdin=b"secret\n")
    assert ph("user", "list", "--json").value["shut"] == []


def test_a_password_changes_and_is_not_empty(ph: Posthouse) -> None:
    ph("user", "add", "alice")
    assert ph("user", "passwd", "alice", stdin=b"new\r\n").out == "alice has a new password.\n"
    assert ph("user", "list", "--json").value["password"]
    assert ph("user", "passwd", "alice").code == 2
    assert ph("user", "passwd", "alice", stdin=b"x" * 2000).code == 2
    assert ph("user", "passwd", "nobody", stdin=b"new\n").code == 1


def test_a_user_is_deleted_after_a_question(ph: Posthouse) -> None:
    ph("user", "add", "alice")
    refused = ph("user", "delete", "alice", terminal=True, stdin=b"\n")
    assert refused.code == 1
    ph("token", "create", "--user", "alice")
    looked = ph("user", "delete", "ALICE", "--dry-run")
    assert looked.out == "Would delete user alice and 1 token.\n"
    assert "alice" in ph("user", "list").out
    gone = ph("user", "delete", "alice", "--json").value
    assert gone == {"user": "alice", "tokens": 1, "dry_run": False}
    assert ph("user", "delete", "alice").code == 1


def test_the_password_lets_the_user_in_over_http(
    ph: Posthouse, server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `user add` reads opens the door that it gives by default."""
    ph("user", "add", "dave", stdin=b"correct horse\n")
    file = tmp_path / "password.txt"
    file.write_text("correct horse\n")
    monkeypatch.setenv("POSTHOUSE_USER", "dave")
    monkeypatch.setenv("POSTHOUSE_PASSWORD_FILE", str(file))
    assert ph("status", "--url", server.url, "--json").value["name"] == "ALPHA"
    assert ph("user", "list", "--url", server.url).code == 1
    credentials = b64encode(b"dave:correct horse").decode()
    asked = Request(
        f"{server.url}/api/v1/status", headers={"Authorization": f"Basic {credentials}"}
    )
    with urlopen(asked, timeout=30) as answer:
        assert json.load(answer)["name"] == "ALPHA"
    file.write_text("wrong\n")
    refused = ph("status", "--url", server.url)
    assert refused.code == 1
    assert "the user name or the password is wrong" in refused.err
