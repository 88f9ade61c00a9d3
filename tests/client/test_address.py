"""Where a client connects to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.address import Address, resolve
from posthouse.net.control_socket import default_home


def test_the_home_that_is_named(tmp_path: Path) -> None:
    address = resolve(tmp_path, None, None, None, {"POSTHOUSE_HOME": "/elsewhere"})
    assert address.home == tmp_path
    assert address.socket_path == tmp_path / "control.sock"
    assert address.shown == str(tmp_path)


def test_the_home_of_the_environment_and_the_usual_one() -> None:
    named = resolve(None, None, None, None, {"POSTHOUSE_HOME": "/srv/queues"})
    assert named.home == Path("/srv/queues")
    assert resolve(None, None, None, None, {}).home == default_home({})
    assert default_home({}).parts[-3:] == (".local", "share", "posthouse")


def test_a_socket_that_lies_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "control").write_text("/run/user/1/posthouse/x.sock\n")
    address = resolve(tmp_path, None, None, None, {})
    assert address.socket_path == Path("/run/user/1/posthouse/x.sock")


def test_addresses() -> None:
    address = resolve(None, "http://host:99", "pht_x", None, {})
    assert address == Address("http://host:99", None, "host", 99, False, "pht_x")
    assert address.host_header == "host:99"
    assert resolve(None, "https://host/", None, None, {}).tls
    assert resolve(None, "http://host", None, None, {}).port == 8816
    assert resolve(None, "http://[::1]:99", None, None, {}).host_header == "[::1]:99"


def test_tokens(tmp_path: Path) -> None:
    file, other = tmp_path / "token", tmp_path / "other"
    file.write_text("pht_file\n")
    other.write_text("pht_environment\n")
    environment = {"POSTHOUSE_TOKEN_FILE": str(other)}
    url = "http://host"
    assert resolve(None, url, None, file, environment).token == "pht_file"
    assert resolve(None, url, "pht_given", None, environment).token == "pht_given"
    assert resolve(None, url, None, None, environment).token == "pht_environment"
    assert resolve(None, url, None, None, {}).token == ""


@pytest.mark.parametrize(
    ("home", "url", "token", "token_file", "match"),
    [
        ("/home", "http://host", None, None, "not both"),
        ("/home", None, "x", None, "goes with url"),
        (None, "http://host", "x", "y", "not both"),
        (None, "ftp://host", None, None, "not an address"),
        (None, "host:8816", None, None, "not an address"),
        (None, "http://host/api", None, None, "not an address"),
        (None, "http://me:secret@host", None, None, "no password"),
        (None, "http://host", "two words", None, "characters"),
        (None, "http://host", "line\r\nHost: other", None, "characters"),
        (None, "http://host:99999", None, None, "[Pp]ort"),
    ],
)
def test_what_cannot_be_meant(
    home: str | None, url: str | None, token: str | None, token_file: str | None, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        resolve(home, url, token, token_file, {})


@given(st.text())
def test_any_text_is_an_address_or_a_value_error(url: str) -> None:
    with suppress(ValueError):
        resolve(None, url, None, None, {})


def test_a_user_and_a_password_go_with_a_url(tmp_path: Path) -> None:
    url = "http://localhost:1"
    found = resolve(None, url, None, None, {}, user="dave", password="a:b ä")
    assert found.authorization == "Basic ZGF2ZTphOmIgw6Q="
    file = tmp_path / "password"
    file.write_text("secret\nmore\n")
    environment = {"POSTHOUSE_USER": "dave", "POSTHOUSE_PASSWORD_FILE": str(file)}
    assert resolve(None, url, None, None, environment).password == "secret"
    assert resolve(None, url, "pht_1", None, environment).authorization == "Bearer pht_1"
    assert resolve("home", None, None, None, environment).authorization == ""


@pytest.mark.parametrize(
    ("url", "token", "user", "password"),
    [
        ("http://h", None, "dave", None),
        ("http://h", None, None, "secret"),
        ("http://h", "pht_1", "dave", "secret"),
        ("http://h", None, "da:ve", "secret"),
        (None, None, "dave", "secret"),
    ],
)
def test_half_a_login_or_two_are_refused(
    url: str | None, token: str | None, user: str | None, password: str | None
) -> None:
    with pytest.raises(ValueError, match=r"go together|not both|colon|needs none"):
        resolve(None, url, token, None, {}, user=user, password=password)


def test_a_user_of_the_environment_needs_a_file() -> None:
    with pytest.raises(ValueError, match="POSTHOUSE_PASSWORD_FILE"):
        resolve(None, "http://h", None, None, {"POSTHOUSE_USER": "dave"})
