"""What the library writes to the logger `posthouse` about its connections."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import posthouse
from posthouse.client.errors import ClientConnectionError
from tests.client.serving import Serving, serving


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == "posthouse"
    ]


def test_a_connection_is_lost_restored_and_given_up(
    home: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "posthouse")
    with serving(home):
        manager = posthouse.connect(home, reconnect=0.1)
        queue = manager.create_queue(path)
    with serving(home):
        queue.send(b"one")
    (lost, restored) = lines(caplog)
    assert lost[0] == "WARNING"
    assert lost[1].startswith("The connection to ALPHA is lost: the ")
    assert lost[1].endswith(". Trying to restore it for up to 0.1 s.")
    assert restored[0] == "INFO"
    assert restored[1].startswith("The connection to ALPHA is restored after 0.")
    caplog.clear()
    with pytest.raises(ClientConnectionError):
        queue.send(b"two")
    lost, *attempts, given_up = lines(caplog)
    assert attempts
    for level, words in attempts:
        assert (level, words.startswith("There is no connection to ALPHA yet: no queue")) == (
            "INFO",
            True,
        )
    assert given_up[0] == "WARNING"
    assert given_up[1].startswith("The connection to ALPHA is not restored: no queue manager")
    caplog.clear()
    manager.close()
    with pytest.raises(ClientConnectionError):
        queue.send(b"three")
    assert lines(caplog) == []


def test_an_awaited_connection_is_logged_alike(
    home: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "posthouse")

    async def main(first: Serving) -> None:
        async with posthouse.aio.connect(home, reconnect=0.1) as manager:
            queue = await manager.create_queue(path)
            first.stop()
            with serving(home):
                await queue.send(b"one")
            assert [level for level, _ in lines(caplog)][::2][:1] == ["WARNING"]
            assert "restored" in lines(caplog)[-1][1]
            with pytest.raises(ClientConnectionError):
                await queue.send(b"two")
            assert "not restored" in lines(caplog)[-1][1]

    asyncio.run(main(Serving(home)))


def test_no_line_has_a_token(caplog: pytest.LogCaptureFixture, home: Path) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(home) as server:
        with posthouse.connect(home) as local:
            token = local.call("POST", "/tokens", {"role": "operate"})["token"]
        manager = posthouse.connect(url=server.url, token=token, reconnect=0.05)
    with pytest.raises(ClientConnectionError):
        manager.status()
    assert len(lines(caplog)) >= 2
    assert token not in caplog.text


def test_a_program_without_logging_prints_nothing(home: Path) -> None:
    program = (
        "import sys, posthouse\n"
        "{}\n"
        "from posthouse.client.connection_log import log_lost\n"
        "log_lost('ALPHA', ValueError('it broke'), 30)\n"
        "print('logging' in sys.modules)\n"
    )
    for first, loaded in (("", "False"), ("import logging", "True")):
        run = subprocess.run(
            [sys.executable, "-I", "-c", program.format(first)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert (run.stdout.strip(), run.stderr) == (loaded, "")
