"""`posthouse token`, and the admin endpoint that tokens open."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from posthouse.cli.token import expiry
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving


@pytest.fixture
def url(server: Serving, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("POSTHOUSE_TOKEN_FILE", raising=False)
    return server.url


def made(ph: Posthouse, folder: Path, *options: str) -> Path:
    file = folder / "token"
    file.write_text(ph("token", "create", *options).out)
    return file


def test_a_token_is_printed_once_and_opens_the_endpoint(
    ph: Posthouse, url: str, tmp_path: Path
) -> None:
    file = made(ph, tmp_path, "--role", "administer")
    token = file.read_text().strip()
    assert token.startswith("pht_")
    assert token not in ph("token", "list", "--json").out
    assert ph("queue", "create", "./private$/far", "--url", url, "--token-file", file).code == 0
    assert ph("send", "./private$/far", "--body", "x", "--url", url, "--token-file", file).code == 0
    assert ph("receive", "./private$/far", "--url", url, "--token-file", file).code == 0


def test_the_environment_names_the_token_file(
    ph: Posthouse, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTHOUSE_TOKEN_FILE", str(made(ph, tmp_path)))
    assert ph("status", "--url", url).code == 0
    assert ph("status").code == 0  # the control socket needs none


def test_a_role_limits_what_a_token_can_do(ph: Posthouse, url: str, tmp_path: Path) -> None:
    file = made(ph, tmp_path)
    refused = ph("queue", "create", "./private$/no", "--url", url, "--token-file", file)
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_ACCESS_DENIED (0xC00E0025): ")
    assert "administer" in refused.err
    ph("queue", "create", "./private$/looked-at")
    ph("send", "./private$/looked-at", "--body", "stays")
    for words in (["send", "--body", "x"], ["receive"]):
        denied = ph(
            words[0], "./private$/looked-at", *words[1:], "--url", url, "--token-file", file
        )
        assert denied.code == 1
        assert "may only look" in denied.err
    seen = ph("peek", "./private$/looked-at", "--url", url, "--token-file", file, "--json").value
    assert seen["body_text"] == "stays"


def test_without_a_good_token_nobody_comes_in(ph: Posthouse, url: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text(f"pht_{'0' * 16}_{'0' * 64}\n")
    for options in ([], ["--token-file", str(tmp_path / "wrong")]):
        refused = ph("queue", "list", "--url", url, *options)
        assert refused.code == 1
        assert refused.err.startswith("MQ_ERROR_ACCESS_DENIED (0xC00E0025): ")
    assert ph("queue", "list", "--url", url, "--token-file", tmp_path / "none").code == 2


def test_a_token_has_what_was_asked_for(ph: Posthouse) -> None:
    options = ["--role", "operate", "--queue", ".\\private$\\a*=send,peek", "--expires", "4w"]
    created = ph("token", "create", *options, "--json").value
    info = created["info"]
    assert (info["user"], info["role"]) == ("administrator", "operate")
    assert info["queues"] == ["private$\\a*=peek,send"]
    assert info["expires"] > info["created_time"]
    assert info in ph("token", "list", "--json").lines
    assert info["id"] in ph("token", "list").out


def test_a_revoked_token_is_good_for_nothing(ph: Posthouse, url: str, tmp_path: Path) -> None:
    file = made(ph, tmp_path)
    identifier = file.read_text().split("_")[1]
    assert ph("token", "revoke", identifier, terminal=True, stdin=b"n\n").code == 1
    assert "Would revoke" in ph("token", "revoke", identifier, "--dry-run").out
    assert ph("token", "revoke", identifier, "--dry-run", "--json").value["id"] == identifier
    assert ph("token", "revoke", "0" * 16, "--dry-run").code == 1
    assert ph("status", "--url", url, "--token-file", file).code == 0
    assert ph("token", "revoke", identifier).out == f"{identifier} is revoked.\n"
    assert ph("status", "--url", url, "--token-file", file).code == 1
    assert ph("token", "revoke", identifier).code == 1
    assert ph("token", "revoke", file.read_text().strip()).code == 2


@pytest.mark.parametrize(
    "wrong",
    [
        ["--user", "nobody"],
        ["--queue", "=send"],
        ["--queue", "a=fly"],
        ["--expires", "2001-01-01"],
    ],
)
def test_what_cannot_be_granted_is_refused(ph: Posthouse, wrong: list[str]) -> None:
    refused = ph("token", "create", *wrong)
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_")


def test_expiry_is_a_moment_or_a_span() -> None:
    assert expiry("2031-01-31") == "2031-01-31T00:00:00Z"
    assert expiry("2031-01-31T12:00:00+02:00") == "2031-01-31T10:00:00Z"
    assert expiry("30d") < expiry("5w") < expiry("9999h")
    for wrong in ("soon", "30", "d", "999999999w", "1900-01-01"):
        with pytest.raises(typer.BadParameter):
            expiry(wrong)
