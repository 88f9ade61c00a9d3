"""Certificates of a running queue manager, on real TLS sockets: they end, and are renewed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from posthouse.runtime import certificates
from posthouse.runtime.certificates import CertificateWatch
from posthouse.runtime.listen_errors import NotStarted
from posthouse.runtime.logs import Log, LogStream
from posthouse.runtime.peer_calls import Coordination
from posthouse.runtime.serve import STOPPED, Outcome
from posthouse.runtime.settings.file import read_settings
from posthouse.security.tls_certificates import make_tls_files
from tests.runtime.running_doors import json_of, serve

DAY = 86_400
ENDS = {"fresh": (0, 365), "soon": (340, 365), "short": (3, 7), "late": (6, 7), "over": (20, 10)}
"""How many days ago a certificate was made, and for how many it was."""
SETTINGS = """
[admin]
certificate = "admin.pem"
private_key = "admin.key"
[https]
certificate = "https.pem"
private_key = "https.key"
client_verification = "optional"
client_authorities = "senders.pem"
[srmp]
client_certificate = "own.pem"
client_key = "own.key"
authorities = "peers.pem"
[transactions]
peer_authorities = "peers.pem"
"""
ADMIN = '[admin]\ncertificate = "admin.pem"\nprivate_key = "admin.key"'
DOORS = ("admin", "https")


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    """The server makes its process private; the tests behind it should not be."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def write(folder: Path, name: str, kind: str = "fresh") -> bytes:
    """Put a certificate and its key into place as renewals do, by renaming."""
    age, days = ENDS[kind]
    made = make_tls_files(["localhost"], int(time.time()) - age * DAY, days)
    for suffix, data in ((".key", made.private_key), (".pem", made.certificate)):
        new = folder / f"{name}{suffix}.new"
        new.write_bytes(data)
        new.rename(folder / f"{name}{suffix}")
    return ssl.PEM_cert_to_DER_cert(made.certificate.decode())


def furnish(folder: Path, kind: str = "fresh") -> Path:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    for name in ("admin", "https", "senders", "own", "peers"):
        write(home, name, kind)
    return home


def served(endpoint: str, own: Path | None = None) -> bytes:
    """The certificate that a door shows; with `own` a certificate is shown to it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # its handshake ends with our certificate
    if own is not None:
        context.load_cert_chain(own, own.with_suffix(".key"))
    host, _, port = endpoint.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain) as connection,
    ):
        found = connection.getpeercert(binary_form=True)
        assert found
        return found


async def all_served(found: dict[str, str]) -> dict[str, bytes]:
    return {door: await asyncio.to_thread(served, found[door]) for door in DOORS}


def refuses(endpoint: str, own: Path) -> bool:
    try:
        served(endpoint, own)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


async def problems_of(session: aiohttp.ClientSession) -> list[str]:
    async with session.get("/api/v1/status") as response:
        found: list[str] = (await json_of(response))["problems"]
        return [line for line in found if "clock" not in line]


@pytest.mark.parametrize("by", ["hangup", "change"])
def test_renewed_files_are_served_without_a_restart(
    tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = furnish(tmp_path)
    if by == "change":
        monkeypatch.setattr(certificates, "LOOK_S", 0.02)
    given: list[ssl.SSLContext] = []
    monkeypatch.setattr(Coordination, "use_tls", lambda self, tls: given.append(tls))

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert len(given) == 1
        before = await all_served(found)
        stranger = tmp_path / "own.pem"
        write(tmp_path, "own")
        assert await asyncio.to_thread(refuses, found["https"], stranger)
        after = {door: write(home, door) for door in DOORS}
        (home / "senders.pem").write_bytes(stranger.read_bytes())
        write(home, "peers")
        assert before != after
        if by == "hangup":
            os.kill(os.getpid(), signal.SIGHUP)
        while await all_served(found) != after:
            pass
        while await asyncio.to_thread(refuses, found["https"], stranger) or len(given) < 2:
            pass
        assert await problems_of(session) == []

    assert serve(tmp_path, SETTINGS, client) == Outcome(STOPPED)


def test_peers_are_called_with_renewed_files(tmp_path: Path) -> None:
    """Its own certificate, and the authorities that it checks theirs against."""
    home = furnish(tmp_path)
    write(tmp_path, "far")
    write(tmp_path, "us")

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        shown = asyncio.get_running_loop().create_future()

        async def heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if not shown.done():
                shown.set_result(writer.get_extra_info("ssl_object").getpeercert(True))
            writer.close()

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tmp_path / "far.pem", tmp_path / "far.key")
        context.load_verify_locations(tmp_path / "us.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        far = await asyncio.start_server(heard, "127.0.0.1", 0, ssl=context)
        port = far.sockets[0].getsockname()[1]
        queue = f"DIRECT=HTTPS://localhost:{port}/msmq/private$/orders"
        place = f"/api/v1/queues/{quote(queue, safe='')}"
        async with session.post(f"{place}/messages", json={"label": "one"}) as sent:
            assert sent.status == 201, await sent.text()

        async def reason() -> str:
            async with session.get(place) as response:
                outgoing = (await json_of(response))["outgoing"]
                return str(outgoing["last_error"])

        while "certificate" not in await reason():
            pass
        for name, mine in (("own", "us"), ("peers", "far")):
            for suffix in (".key", ".pem"):
                (tmp_path / f"{mine}{suffix}").rename(home / f"{name}{suffix}")
        os.kill(os.getpid(), signal.SIGHUP)
        own = ssl.PEM_cert_to_DER_cert((home / "own.pem").read_text())
        while not shown.done():
            async with session.post(f"{place}/retry"):
                pass
        assert shown.result() == own
        far.close()

    assert serve(tmp_path, SETTINGS, client) == Outcome(STOPPED)


def test_a_broken_file_keeps_the_one_before_and_is_told(tmp_path: Path) -> None:
    home = furnish(tmp_path)

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        before = await all_served(found)
        right = (home / "admin.key").read_bytes()
        (home / "admin.key").write_bytes((home / "https.key").read_bytes())
        (home / "https.pem").unlink()
        (home / "peers.pem").write_text("no certificate")
        os.kill(os.getpid(), signal.SIGHUP)
        while len(lines := await problems_of(session)) < 4:
            pass
        admin, https, srmp, transactions = lines
        assert admin.startswith("[admin] certificate cannot be used: ")
        assert "the key does not belong to the certificate. The files that were read" in admin
        assert f"{home / 'https.pem'}: No such file" in https
        assert srmp.startswith("[srmp] authorities cannot be used")
        assert transactions.startswith("[transactions] peer_authorities cannot be used")
        assert await all_served(found) == before
        (home / "admin.key").write_bytes(right)
        write(home, "https")
        write(home, "peers")
        os.kill(os.getpid(), signal.SIGHUP)
        while await problems_of(session):
            pass

    assert serve(tmp_path, SETTINGS, client) == Outcome(STOPPED)
    log = (home / "logs" / "posthouse.log").read_text()
    assert log.count("certificate_refused") == 4
    assert log.count("certificate_renewed") == 4


def test_files_that_were_refused_are_tried_again_at_each_look(tmp_path: Path) -> None:
    """Rights that were corrected leave inode, size and time of a file as they were."""
    write(tmp_path, "admin")
    write(tmp_path, "other")
    found = look_at(tmp_path, ADMIN)
    key, right = tmp_path / "admin.key", (tmp_path / "admin.key").read_bytes()
    key.write_bytes((tmp_path / "other.key").read_bytes())
    written_ns = key.stat().st_mtime_ns
    for _ in range(2):
        found.look()
        assert len(found.problems()) == 1
    key.write_bytes(right)
    os.utime(key, ns=(written_ns, written_ns))
    found.look()
    assert found.problems() == []


@pytest.mark.parametrize(
    ("kind", "words"), [("soon", "expires in 24 days, on 20"), ("over", "has expired on 20")]
)
def test_a_certificate_that_ends_is_told_before(tmp_path: Path, kind: str, words: str) -> None:
    home = furnish(tmp_path, kind)

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        lines = await problems_of(session)
        assert len(lines) == 3
        for name, line in zip(("admin", "https", "own"), lines, strict=True):
            assert words in line
            assert str(home / f"{name}.pem") in line
            assert "read again by itself" in line
        async with session.get("/metrics") as response:
            metrics = [
                line.split(" ")
                for line in (await response.text()).splitlines()
                if line.startswith("posthouse_certificate_expires_seconds{")
            ]
        assert [name for name, _ in metrics] == [
            f'posthouse_certificate_expires_seconds{{use="{use}"}}'
            for use in ("admin", "https", "srmp")
        ]
        age, days = ENDS[kind]
        for _, left_s in metrics:
            assert abs(float(left_s) - (days - age) * DAY) < DAY
        write(home, "admin")
        write(home, "https")
        write(home, "own")
        os.kill(os.getpid(), signal.SIGHUP)
        while await problems_of(session):
            pass

    assert serve(tmp_path, SETTINGS, client) == Outcome(STOPPED)
    log = (home / "logs" / "posthouse.log").read_text()
    assert log.count(" certificate_expires ") == 3


def look_at(home: Path, text: str, **how: Any) -> CertificateWatch:
    (home / "posthouse.toml").write_text(text)
    settings = read_settings(home / "posthouse.toml", must_exist=True)
    return CertificateWatch(settings, home, Log(LogStream()), **how)


def test_the_line_comes_with_time_and_stays_once(tmp_path: Path) -> None:
    write(tmp_path, "own", "fresh")
    now = time.time()
    text = f'[directory.ldap]\nurl = "ldaps://far"\ncertificate_file = "{tmp_path}/own.pem"'
    found = look_at(tmp_path, text, utc_s=lambda: now)
    assert found.problems() == []
    now += 336 * DAY
    (line,) = found.problems()
    assert "[directory.ldap] certificate_file" in line
    assert "expires in 28 days" in line
    now += 30 * DAY
    (line,) = found.problems()
    assert "has expired" in line


@pytest.mark.parametrize(("kind", "lines"), [("fresh", 0), ("short", 0), ("late", 1)])
def test_one_for_a_few_days_is_told_of_in_its_last_third(
    tmp_path: Path, kind: str, lines: int
) -> None:
    write(tmp_path, "own", kind)
    text = '[admin]\ncertificate = "own.pem"\nprivate_key = "own.key"'
    assert len(look_at(tmp_path, text).problems()) == lines


def test_settings_without_files_have_none(tmp_path: Path) -> None:
    found = look_at(tmp_path, "")
    assert (found.problems(), list(found.left_s())) == ([], [])
    assert found.context("admin") is None
    assert found.context("https") is None


def test_a_file_is_named_that_keeps_it_from_starting(tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match=rf"{tmp_path}/none\.pem: No such file"):
        look_at(tmp_path, '[https]\ncertificate = "none.pem"\nprivate_key = "none.key"')
