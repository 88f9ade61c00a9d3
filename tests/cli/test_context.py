"""Contexts: which queue manager a command is about, and what goes before what."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.cli.contexts import (
    ContextError,
    Contexts,
    Target,
    chosen,
    contexts_file,
    read_contexts,
    write_contexts,
)
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An own folder of settings, and an environment that names no queue manager."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("POSTHOUSE_HOME", "POSTHOUSE_URL", "POSTHOUSE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return contexts_file()


def test_commands_are_about_the_context_in_use(
    posthouse: Posthouse, server: Serving, config: Path
) -> None:
    posthouse("context", "create", "here", "--home", server.home)
    assert posthouse("status", "--context", "here", "--json").value["name"] == "ALPHA"
    assert posthouse("context", "use", "here").code == 0
    assert posthouse("status", "--json").value["name"] == "ALPHA"
    assert posthouse("context", "list", "--json").value["in_use"] is True
    assert stat.S_IMODE(config.stat().st_mode) == 0o600


def test_a_context_of_an_admin_endpoint_has_its_token(
    posthouse: Posthouse, server: Serving, config: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    made = posthouse("token", "create", "--home", server.home, "--json").value
    token.write_text(made["token"])
    words = ("context", "create", "far", "--url", server.url, "--token-file", token)
    assert posthouse(*words).code == 0
    assert posthouse("status", "--context", "far", "--json").value["name"] == "ALPHA"
    assert made["token"] not in config.read_text()
    token.write_text("x" * 40)
    assert posthouse("status", "--context", "far").code != 0


def test_the_environment_goes_before_the_context_in_use(
    posthouse: Posthouse, server: Serving, config: Path, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    posthouse("context", "create", "away", "--home", tmp_path / "nowhere")
    posthouse("context", "use", "away")
    assert posthouse("status").code == 3
    monkeypatch.setenv("POSTHOUSE_HOME", str(server.home))
    assert posthouse("status").code == 0
    monkeypatch.setenv("POSTHOUSE_CONTEXT", "away")
    assert posthouse("status").code == 3
    assert posthouse("status", "--home", server.home).code == 0


def test_two_queue_managers_in_the_environment_are_refused(
    posthouse: Posthouse, server: Serving, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTHOUSE_HOME", str(server.home))
    monkeypatch.setenv("POSTHOUSE_URL", "http://127.0.0.1:1")
    refused = posthouse("queue", "list")
    assert refused.code == 2
    assert "both set" in refused.err
    assert posthouse("status", "--home", server.home).code == 0


def test_a_url_of_the_environment_is_asked(
    posthouse: Posthouse, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTHOUSE_URL", "http://127.0.0.1:1")
    refused = posthouse("status")
    assert refused.code == 3
    assert "127.0.0.1:1" in refused.err


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["create", "x"], "give --home or --url"),
        (["create", "x", "--home", "a", "--url", "http://h"], "give --home or --url"),
        (["create", "x", "--url", "ftp://h"], "is not an address"),
        (["create", "x", "--url", "http://u:p@h"], "carries no password"),
        (["create", "x", "--home", "a", "--token-file", "t"], "go with --url"),
        (["create", "x", "--url", "http://h", "--ca-file", "/no/such"], "there is no file"),
        (["create", "../x", "--home", "a"], "a name has letters"),
        (["use", "nothing"], "there is no context 'nothing'"),
        (["delete", "nothing"], "there is no context 'nothing'"),
        (["show"], "no context is in use"),
    ],
)
def test_a_mistake_has_one_answer(
    posthouse: Posthouse, config: Path, words: list[str], cause: str
) -> None:
    refused = posthouse("context", *words)
    assert refused.code == 2
    assert cause in refused.err
    assert not config.exists()


def test_a_context_that_is_deleted_is_no_longer_in_use(
    posthouse: Posthouse, config: Path, tmp_path: Path
) -> None:
    posthouse("context", "create", "one", "--home", tmp_path)
    posthouse("context", "use", "one")
    assert "was in use" in posthouse("context", "delete", "one").err
    assert read_contexts(config) == Contexts({})


def test_contexts_and_options_do_not_mix(posthouse: Posthouse, config: Path) -> None:
    refused = posthouse("status", "--context", "x", "--home", "y")
    assert (refused.code, "not both" in refused.err) == (2, True)
    refused = posthouse("status", "--ca-file", "x", "--home", "y")
    assert (refused.code, "--ca-file goes with --url" in refused.err) == (2, True)


@given(st.binary() | st.recursive(
    st.none() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["contexts", "current", "home", "url", "x"]), inner
    ),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_file_gives_contexts_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "contexts-of-any-kind.json"
    file.write_bytes(data)
    try:
        found = read_contexts(file)
    except ContextError:
        return
    write_contexts(file, found)
    assert read_contexts(file) == found


def test_a_broken_file_of_contexts_does_not_matter_to_who_names_a_home(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    contexts_file(environment).parent.mkdir()
    contexts_file(environment).write_text("{")
    with pytest.raises(ContextError):
        chosen(Target(), None, environment)
    assert chosen(Target(tmp_path), None, environment) == Target(tmp_path)
    assert chosen(Target(), None, environment | {"POSTHOUSE_HOME": "x"}) == Target()


def test_certificates_that_are_none_are_wrong_usage(
    posthouse: Posthouse, config: Path, tmp_path: Path
) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("hello")
    refused = posthouse("status", "--url", "https://127.0.0.1:1", "--ca-file", file)
    assert (refused.code, "no certificate in PEM form" in refused.err) == (2, True)
