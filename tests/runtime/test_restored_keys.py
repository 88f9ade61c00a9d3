"""A restore on another machine, with and without the key file of the old one."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import posthouse
from posthouse.cli import main
from posthouse.model.errors import QmsError, QueueError
from posthouse.runtime.backup import BackupRefused, restore
from posthouse.runtime.key_file import KEYS, SEAL
from posthouse.runtime.serve import STOPPED, Outcome
from tests.process.ncp_house import PASSWORD, client
from tests.runtime.running_doors import json_of, serve

ORDERS = r".\private$\orders"
CONFIG = '[https]\ncertificate = "keys/tls.pem"\nprivate_key = "keys/tls.key"\n'
DOORS = ["http", "rpc", "ncp", "sign"]


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    """The server makes its process private; the tests behind it should not be."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def opens(door: str, home: Path, found: dict[str, str], token: str) -> bool:
    """Whether carol comes in by a door."""
    port = {name: int(where.rpartition(":")[2]) for name, where in found.items() if ":" in where}
    try:
        if door == "rpc":
            far = posthouse.msmq(
                "127.0.0.1", user="carol", password=PASSWORD, rpc_port=port["rpc"], timeout=10
            )
            with far, far.queue(r"DIRECT=OS:127.0.0.1\private$\orders").cursor() as cursor:
                assert cursor.peek().body == b"kept"
        elif door == "ncp":
            client(port["ncp"], "CAROL").close()
        else:
            with posthouse.connect(url=f"http://{found['admin']}", token=token) as manager:
                manager.queue(ORDERS).send(b"signed", sign=door == "sign")
    except (QueueError, QmsError):
        return False
    return True


def furnish(home: Path) -> str:
    """A user of each door with a signing key, keys of the machine; the user's token."""
    with posthouse.connect(home) as qm:
        qm.create_queue(ORDERS).send(b"kept", recoverable=True)
        body = {"name": "carol", "doors": ["http", "rpc", "ncp"], "password": PASSWORD}
        qm.call("POST", "/users", body)
        qm.call("POST", "/certificates", {"user": "carol", "bits": 1024})
        qm.call("POST", "/certificates", {"bits": 1024})
        assert main.run(["queue", "grant", "orders", "carol", "full", "--home", str(home)]) == 0
        token: str = qm.call("POST", "/tokens", {"user": "carol", "role": "operate"})["token"]
        return token


async def looked_at(
    session: aiohttp.ClientSession, home: Path, found: dict[str, str], token: str
) -> tuple[list[str], list[str]]:
    """The doors that are open, and the problems that name the key file."""
    doors = [door for door in DOORS if await asyncio.to_thread(opens, door, home, found, token)]
    async with session.get("/api/v1/status") as response:
        problems = (await json_of(response))["problems"]
    return doors, [line for line in problems if SEAL in line]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with a backup, and what an operator kept apart; and the token."""
    folder = tmp_path_factory.mktemp("alpha")
    tokens = []

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        home = folder / "home"
        tokens.append(await asyncio.to_thread(furnish, home))
        assert (await looked_at(session, home, found, tokens[0])) == (DOORS, [])
        async with session.post("/api/v1/backup", json={"directory": f"{folder}/copy"}) as made:
            assert made.status == 200, await made.text()

    (folder / "home").mkdir(mode=0o700)
    assert main.run(["cert", "create", "--tls", "localhost", "--home", str(folder / "home")]) == 0
    before = os.umask(0o022)
    assert serve(folder, CONFIG, client) == Outcome(STOPPED)
    os.umask(before)
    shutil.move(folder / "home" / KEYS, folder / KEYS)
    shutil.rmtree(folder / "home")
    return folder, tokens[0]


def put_back_tls(folder: Path, home: Path) -> None:
    """As `restore` says."""
    (home / KEYS).mkdir(exist_ok=True)
    for name in ("tls.pem", "tls.key"):
        shutil.copy(folder / KEYS / name, home / KEYS)


def test_a_restore_with_the_key_file_opens_every_door(saved: Any, tmp_path: Path) -> None:
    folder, token = saved
    home = tmp_path / "home"
    restored = restore(folder / "copy", home, keys=folder / KEYS / SEAL)
    assert restored.closed == []
    assert restored.missing == [f"{home}/keys/tls.pem", f"{home}/keys/tls.key"]
    assert (home / KEYS / SEAL).read_bytes() == (folder / KEYS / SEAL).read_bytes()
    assert (home / KEYS / SEAL).stat().st_mode & 0o777 == 0o600
    put_back_tls(folder, home)

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert (await looked_at(session, home, found, token)) == (DOORS, [])

    assert serve(tmp_path, None, client) == Outcome(STOPPED)


def test_a_restore_without_it_says_what_stays_shut(
    saved: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing makes a new key, until the right one is put back."""
    folder, token = saved
    home = tmp_path / "home"
    capsys.readouterr()
    assert main.run(["restore", str(folder / "copy"), "--home", str(home)]) == 0
    said = capsys.readouterr().out
    assert "!  the password of carol (door rpc), the password of carol (door ncp), " in said
    assert "the keys of this queue manager, a signing key of carol cannot be opened" in said
    assert "without keys/seal.key of the home that was backed up" in said
    assert f"!  The settings name files that are not here: {home}/keys/tls.pem, " in said
    put_back_tls(folder, home)

    async def without(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        doors, (line,) = await looked_at(session, home, found, token)
        assert doors == ["http"]
        assert line.startswith("the password of carol (door rpc), the password of carol (door ncp)")
        assert "seal.key is missing. Messages, tokens and logins over HTTP do not need them" in line
        body = {"password": "another"}
        async with session.post("/api/v1/users/carol/password", json=body) as refused:
            assert refused.status == 422
            assert "seal.key is missing" in await refused.text()

    assert serve(tmp_path, None, without) == Outcome(STOPPED)
    assert not (home / KEYS / SEAL).exists()
    shutil.copy(folder / KEYS / SEAL, home / KEYS)

    async def whole(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert (await looked_at(session, home, found, token)) == (DOORS, [])

    assert serve(tmp_path, None, whole) == Outcome(STOPPED)


def test_another_key_is_told_until_passwords_and_keys_are_new(saved: Any, tmp_path: Path) -> None:
    folder, token = saved
    home = tmp_path / "home"
    restore(folder / "copy", home)
    put_back_tls(folder, home)
    (home / KEYS / SEAL).write_bytes(bytes(32))

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        doors, (line,) = await looked_at(session, home, found, token)
        assert doors == ["http"]
        assert "seal.key is not the one that sealed them" in line
        assert "or set these passwords again" in line
        body = {"password": PASSWORD}
        async with session.post("/api/v1/users/carol/password", json=body) as done:
            assert done.status == 200, await done.text()
        doors, (line,) = await looked_at(session, home, found, token)
        assert doors == ["http", "rpc", "ncp"]
        assert line.startswith("the keys of this queue manager, a signing key of carol cannot be")
        body = {"directory": f"{tmp_path}/copy"}
        async with session.post("/api/v1/backup", json=body) as made:
            assert made.status == 200, await made.text()

    assert serve(tmp_path, None, client) == Outcome(STOPPED)
    again = restore(tmp_path / "copy", tmp_path / "again", keys=home / KEYS / SEAL)
    assert again.closed == ["the keys of this queue manager", "a signing key of carol"]
    (note,) = [note for note in again.notes() if "carol" in note]
    assert "another key than the keys/seal.key that is here" in note


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (bytes(32), "does not open the password of carol .door rpc.*Name keys/seal.key of the"),
        (b"short", "is not a key file: it has 5 bytes, not 32"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_wrong_key_file_restores_nothing(
    saved: Any, tmp_path: Path, given: bytes | None, why: str
) -> None:
    if given is not None:
        (tmp_path / "given").write_bytes(given)
    home = tmp_path / "home"
    with pytest.raises(BackupRefused, match=why):
        restore(saved[0] / "copy", home, keys=tmp_path / "given")
    assert not (home / "store").exists()
    assert not (home / KEYS).exists()


def test_a_key_file_that_is_there_is_not_replaced(saved: Any, tmp_path: Path) -> None:
    folder, _ = saved
    home = tmp_path / "home"
    (home / KEYS).mkdir(parents=True)
    (home / KEYS / SEAL).write_bytes(bytes(32))
    with pytest.raises(BackupRefused, match=r"has another keys/seal\.key"):
        restore(folder / "copy", home, keys=folder / KEYS / SEAL)
    assert (home / KEYS / SEAL).read_bytes() == bytes(32)
    (home / KEYS / SEAL).write_bytes((folder / KEYS / SEAL).read_bytes())
    assert restore(folder / "copy", home).closed == []
