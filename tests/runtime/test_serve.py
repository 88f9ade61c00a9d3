"""A run of the server in this process, with a real door on a real socket."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.model.errors import ServiceNotAvailable
from posthouse.model.properties import QueueProperties
from posthouse.protocols.memory import Buffer
from posthouse.runtime.embedded import EmbeddedQueueManager
from posthouse.runtime.ports import PortSet
from posthouse.runtime.serve import (
    FAILED,
    STOPPED,
    DoorAddress,
    NotStarted,
    Options,
    Outcome,
    Service,
    effective_settings,
    run,
)
from posthouse.runtime.settings.file import SettingsError
from tests.runtime.line_door import ADMIN, LineDoor
from tests.support.machine_books import machine_books
from tests.support.serve_rig import Rig, Visit, end


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    """The server makes its process private; the tests behind it should not be."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def test_a_stop_answers_calls_begun_cancels_waits_and_keeps_everything(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def client(visit: Visit) -> None:
        reader, writer = await visit.connect()
        writer.write(b"send one\n")
        assert await reader.readline() == b"sent\n"
        writer.write(b"receive\n")
        assert await reader.readline() == b"one\n"
        writer.write(b"receive\n")
        while not visit.door.begun:  # until it waits
            await visit.service.desk.run(lambda m: None)
        end()
        assert await reader.readline() == b"MQ_ERROR_OPERATION_CANCELLED\n"
        assert await reader.readline() == b""
        assert not visit.ready_file.exists()

    assert rig.run(client) == Outcome(STOPPED)
    assert rig.visits[0].door.stopped
    assert rig.events()[-3:] == ["started", "stopping", "stopped"]

    async def sends(visit: Visit) -> None:
        reader, writer = await visit.connect()
        writer.write(b"send kept\n")
        assert await reader.readline() == b"sent\n"
        end()

    assert rig.run(sends) == Outcome(STOPPED)
    with EmbeddedQueueManager(rig.home, name="ALPHA") as manager:
        assert manager.recovered.clean
        books = machine_books(manager.manager.queues.all())[r"ALPHA\private$\orders"]
        assert (books.accepted, books.received, books.waiting) == (2, 1, 1)


def test_the_ready_file_says_where_we_are(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    seen: list[dict[str, object]] = []

    async def client(visit: Visit) -> None:
        seen.append(json.loads(rig.ready_file.read_text()))
        end()

    rig.run(client)
    (ready,) = seen
    keys = {"pid", "name", "guid", "home", "log", "version", "endpoints", "console"}
    assert set(ready) == keys
    assert (ready["pid"], ready["name"], ready["version"]) == (os.getpid(), "ALPHA", "9.9")
    assert ready["home"] == str(rig.home)
    assert rig.told == seen


@pytest.mark.spec("MS-MQDMPR 3.1.4.1/1")
def test_a_port_in_use_is_a_clear_refusal_and_the_home_is_free_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    opened: list[LineDoor] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        def doors(service: Service) -> list[DoorAddress]:
            opened.append(LineDoor(service))
            opened.append(LineDoor(service, "other"))
            return [
                DoorAddress(opened[0], "127.0.0.1", 0),
                DoorAddress(opened[1], "127.0.0.1", port),
            ]

        with pytest.raises(NotStarted) as refused:
            run(Options(rig.home, name="ALPHA", ready_file=rig.ready_file), doors)
    assert str(refused.value) == (
        f"other cannot listen on 127.0.0.1:{port}: another process uses this port. Stop that "
        "process (`ss -lntup` shows it), or set another port in posthouse.toml ([other] port)"
    )
    assert opened[0].stopped
    assert not rig.ready_file.exists()
    with EmbeddedQueueManager(rig.home, name="ALPHA") as manager:
        assert manager.recovered.clean


def test_a_ready_file_that_cannot_be_written_is_a_clear_refusal(tmp_path: Path) -> None:
    options = Options(tmp_path / "home", name="ALPHA", ready_file=tmp_path / "no" / "ready.json")
    with pytest.raises(NotStarted, match="cannot be written"):
        run(options, lambda service: [])


def test_a_failure_of_the_engine_ends_the_run_with_its_cause(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def client(visit: Visit) -> None:
        def broken(manager: QueueManager) -> None:
            raise ZeroDivisionError("a mistake of ours")

        with pytest.raises(ZeroDivisionError):
            visit.service.desk.decide(broken, lambda answer: None)
        with pytest.raises(ServiceNotAvailable):
            await visit.service.desk.run(lambda m: None)

    outcome = rig.run(client)
    assert outcome.code == FAILED
    assert "a mistake of ours" in outcome.cause
    assert "failed" in rig.events()
    with EmbeddedQueueManager(rig.home, name="ALPHA") as manager:
        assert manager.create_queue(r".\private$\next", QueueProperties())


def test_a_disk_that_fails_at_the_stop_is_a_failure_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)

    async def client(visit: Visit) -> None:
        monkeypatch.setattr(os, "fdatasync", broken_disk)
        visit.service.desk.decide(
            lambda m: m.queues.create_queue(r".\private$\lost", QueueProperties(), ADMIN),
            lambda answer: pytest.fail("nobody may hear of what is not on the disk"),
        )
        end()

    outcome = rig.run(client)
    assert outcome.code == FAILED
    assert "Input/output error" in outcome.cause


def broken_disk(descriptor: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_door_that_does_not_stop_is_left_behind(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "[limits]\nstop_s = 1")

    class Deaf(LineDoor):
        async def stop(self, deadline_s: float) -> None:
            await asyncio.get_running_loop().create_future()

    class Broken(LineDoor):
        async def stop(self, deadline_s: float) -> None:
            raise ZeroDivisionError

    async def client(visit: Visit) -> None:
        end()

    more = (lambda s: Deaf(s, "deaf"), lambda s: Broken(s, "broken"))
    assert rig.run(client, *more) == Outcome(STOPPED)
    assert rig.visits[0].door.stopped


def test_mistakes_in_callbacks_are_logged_and_stop_nobody(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def client(visit: Visit) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        reader, writer = await visit.connect()
        writer.write(b"send one\n")
        assert await reader.readline() == b"sent\n"
        end()

    assert rig.run(client) == Outcome(STOPPED)
    (line,) = [line for line in rig.log() if line["event"] == "internal_error"]
    assert line["kind"] == "ZeroDivisionError"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/1")
def test_messages_are_refused_while_memory_is_nearly_full(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "[limits]\nmemory = '16MiB'\nunsynced = '1MiB'")

    async def client(visit: Visit) -> None:
        memory = visit.service.memory
        holder = memory.open("10.0.0.1", lambda reason: None, lambda: None)
        reader, writer = await visit.connect()
        holder.take(Buffer.ARROW, 14 << 20)  # which cannot be let go, as unread answers can
        writer.write(b"send one\n")
        assert await reader.readline() == b"MQ_ERROR_INSUFFICIENT_RESOURCES\n"
        holder.leave()
        writer.write(b"send two\n")
        assert await reader.readline() == b"sent\n"
        end()

    assert rig.run(client) == Outcome(STOPPED)
    wanted = {"memory_short", "memory_enough", "flow_control_begins", "flow_control_ends"}
    assert wanted <= set(rig.events())


def test_a_hangup_reopens_the_log(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    log = rig.home / "logs" / "posthouse.log"

    async def client(visit: Visit) -> None:
        log.rename(log.with_name("moved"))
        os.kill(os.getpid(), signal.SIGHUP)
        while not log.exists():
            await visit.service.desk.run(lambda m: None)
        end()

    assert rig.run(client) == Outcome(STOPPED)
    assert rig.events() == ["stopping", "stopped"]
    assert "started" in log.with_name("moved").read_text()


# -- what the command line says


def test_the_command_line_goes_before_the_settings(tmp_path: Path) -> None:
    (tmp_path / "posthouse.toml").write_text(
        "[queue_manager]\nname = 'FILE'\nlisten = '127.0.0.2'\nports = 'standard'"
    )
    machine = effective_settings(Options(tmp_path)).queue_manager
    assert (machine.name, machine.listen, machine.ports) == ("FILE", "127.0.0.2", "standard")
    options = Options(tmp_path, name="LINE", listen="127.0.0.3", ports=PortSet.EPHEMERAL)
    machine = effective_settings(options).queue_manager
    assert (machine.name, machine.listen, machine.ports) == ("LINE", "127.0.0.3", "ephemeral")


@pytest.mark.spec("MS-MQDMPR 3.1.3/1")
def test_the_host_gives_its_name_where_none_is_set(tmp_path: Path) -> None:
    expected = socket.gethostname().partition(".")[0]
    with EmbeddedQueueManager(tmp_path) as opened:
        assert opened.manager.machine.settings.computer_name == expected


def test_a_named_settings_file_takes_the_place_of_the_one_in_the_home(tmp_path: Path) -> None:
    (tmp_path / "posthouse.toml").write_text("[queue_manager]\nname = 'HOME'")
    (tmp_path / "other.toml").write_text("[queue_manager]\nname = 'OTHER'")
    options = Options(tmp_path, config=tmp_path / "other.toml")
    assert effective_settings(options).queue_manager.name == "OTHER"
    with pytest.raises(SettingsError, match="no such file"):
        effective_settings(Options(tmp_path, config=tmp_path / "none.toml"))


@pytest.mark.parametrize("wrong", [{"name": "a b"}, {"listen": "nowhere"}])
def test_wrong_words_on_the_command_line_are_told_like_wrong_settings(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    with pytest.raises(SettingsError, match=f"--{next(iter(wrong))}: "):
        effective_settings(Options(tmp_path)._replace(**wrong))


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "posthouse.toml").write_text('[log]\nfile = "file/posthouse.log"\n')
    with pytest.raises(NotStarted, match=r"\[log\] file: .*/file/posthouse.log cannot be written"):
        run(Options(tmp_path), lambda service: [])
