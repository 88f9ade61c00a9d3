"""`posthouse pipeline`, as far as it goes without Spark."""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer

from posthouse.cli.command import interruptible
from posthouse.cli.connection import Remote
from posthouse.cli.contexts import Target
from posthouse.cli.pipelines.access import reached
from posthouse.cli.pipelines.command import moment
from posthouse.model.errors import ServiceNotAvailable
from posthouse.model.extras import install
from tests.cli.conftest import Posthouse
from tests.client.serving import Serving

ARCHIVE = ("pipeline", "archive", "--lake", "lake")
REPLAY = ("pipeline", "replay", "--lake", "lake")


def test_all_pipelines_are_listed(posthouse: Posthouse) -> None:
    names = [line["name"] for line in posthouse("pipeline", "list", "--json").lines]
    assert names[:3] == ["archive", "replay", "deadletters"]
    assert "archive" in posthouse("pipeline", "list").out


@pytest.mark.parametrize(
    "command", [(*ARCHIVE, "./private$/a"), REPLAY, ("pipeline", "settle", "c")]
)
def test_without_spark_the_remedy_is_said(
    ph: Posthouse, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = ph(*command)
    assert done.code == 1
    assert install("spark") in done.err


def test_a_queue_that_is_not_there_is_said_before_spark_starts(ph: Posthouse) -> None:
    done = ph(*ARCHIVE, "./private$/nowhere")
    assert done.code == 1
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--map", "nothing"), "--map is QUEUE=DEST"),
        (("--from", "yesterday"), "a time is written"),
        (("--rate", "0"), "--rate"),
    ],
)
def test_wrong_words_are_wrong_usage(ph: Posthouse, options: tuple[str, ...], words: str) -> None:
    done = ph(*REPLAY, "--to", "origin", *options)
    assert done.code == 2
    assert words in done.err


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert moment("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert moment("2026-01-31T12:00:00+02:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)
    with pytest.raises(typer.BadParameter):
        moment("31.1.2026")


def test_tasks_get_a_token_that_ends_with_the_command(server: Serving) -> None:
    server.ask(lambda manager: setattr(manager.transactions.coordinator, "url", server.url))
    with Remote(Target(server.home), json=False) as remote:
        before = len(remote.client.call("GET", "/tokens")["tokens"])
        with reached(remote, "operate") as place:
            assert place.url == server.url
            assert place.token_file is not None
            token_file = Path(place.token_file)
            assert token_file.parent.stat().st_mode & 0o077 == 0
            with Remote(Target(None, place.url, token_file), json=False) as there:
                assert there.client.status().name == "ALPHA"
            assert place.options == {"url": place.url, "tokenFile": place.token_file}
        assert not token_file.exists()
        assert len(remote.client.call("GET", "/tokens")["tokens"]) == before


def test_an_address_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTHOUSE_TOKEN_FILE", "/run/token")
    with (
        Remote(Target(None, "http://127.0.0.1:1"), json=False) as remote,
        reached(remote) as place,
    ):
        assert place == ("http://127.0.0.1:1", "/run/token", None)


def test_a_queue_manager_without_an_admin_endpoint_is_of_no_use(server: Serving) -> None:
    server.ask(lambda manager: setattr(manager.transactions.coordinator, "url", ""))
    with (
        Remote(Target(server.home), json=False) as remote,
        pytest.raises(ServiceNotAvailable, match="no admin endpoint"),
        reached(remote),
    ):
        pass


def test_a_signal_asks_to_stop_and_a_second_one_stops() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
