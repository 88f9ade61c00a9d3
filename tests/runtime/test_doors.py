"""The listeners of the settings, as `posthouse serve` opens them, on real sockets."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest

import posthouse
from posthouse.protocols.binary.server import BinaryServer
from posthouse.protocols.http.server import AdminServer
from posthouse.runtime.backup import read_manifest
from posthouse.runtime.endpoints import standard_doors
from posthouse.runtime.home import local_offset_s
from posthouse.runtime.ports import PortSet
from posthouse.runtime.serve import STOPPED, DoorAddress, NotStarted, Options, Outcome, Service, run
from tests.runtime.running_doors import json_of, serve
from tests.support.srmp_posts import ENVELOPE, GUID

CERTIFICATES = Path(__file__).parents[1] / "vectors" / "tls"

ALL = {"control", "admin", "binary", "ping", "http", "rpc", "epm", "ncp"}


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    """The server makes its process private; the tests behind it should not be."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def test_the_control_socket_and_the_admin_endpoint_answer(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        assert set(endpoints) == ALL
        async with session.get("/api/v1/status") as response:
            assert (await json_of(response))["name"] == "ALPHA"
        async with aiohttp.request("GET", f"http://{endpoints['admin']}/healthz") as response:
            assert response.status == 200
        async with aiohttp.request("GET", f"http://{endpoints['admin']}/metrics") as response:
            assert response.status == 401
        async with session.get("/metrics") as response:
            metrics = await response.text()
            assert "posthouse_sync_seconds_bucket" in metrics
            assert 'posthouse_binary_packets_total{direction="in"} 0.0' in metrics
            assert 'posthouse_rpc_calls_total{method="R_StartReceive"} 0.0' in metrics
            assert "posthouse_rpc_waiting 0.0" in metrics

    assert serve(tmp_path, "", client) == Outcome(STOPPED)


def test_an_endpoint_that_is_switched_off_is_not_there(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        assert set(endpoints) == {"control"}

    off = ("admin", "binary", "http", "rpc", "ncp")
    config = "".join(f"[{section}]\nenabled = false\n" for section in off)
    assert serve(tmp_path, config, client) == Outcome(STOPPED)


def test_refused_logins_at_stations_are_told_without_ncp(tmp_path: Path) -> None:
    """A caller of the API may try the passwords of others."""

    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        body = {"name": "SUPERVISOR", "password": "guessed"}
        async with session.post("/api/v1/stations", json=body) as response:
            assert response.status >= 400

    assert serve(tmp_path, "[ncp]\nenabled = false\n", client) == Outcome(STOPPED)
    home = tmp_path / "home"
    assert "login_refused" in (home / "logs/posthouse.log").read_text()
    assert "SUPERVISOR" in (home / "audit/audit-sign-ins.log").read_text()


@pytest.mark.spec("MS-MQQB 3.1.1.3/12", "MS-MQQB 3.1.1.3/13")
def test_what_is_configured_holds_after_every_start(tmp_path: Path) -> None:
    resend_ms = {"short": 1_000, "medium": 2_000, "long": 3_000, "final": 4_000}
    config = "[queue_manager]\nsend_insecure_nacks = true\n[binary]\nround_trip_ms = 7\n"
    config += "".join(f"resend_{name}_ms = {value}\n" for name, value in resend_ms.items())
    seen: list[tuple[bool, int, list[int]]] = []

    def look(service: Service, places: list[DoorAddress]) -> None:
        (door,) = [place.door for place in places if isinstance(place.door, BinaryServer)]
        settings = door._node.protocol.settings
        insecure = service.desk.manager.machine.settings.queue_manager.send_insecure_nacks
        seen.append((insecure, settings.round_trip_ms, list(settings.resend_ms[::3])))

    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        (tmp_path / "ready.json").unlink()

    for written in (config, None):
        assert serve(tmp_path, written, client, look) == Outcome(STOPPED)
    assert seen == 2 * [(True, 7, [1_000, 2_000, 3_000, 4_000])]
    assert serve(tmp_path, "", client, look) == Outcome(STOPPED)
    assert seen[-1] == (False, 0, [30_000, 300_000, 1_800_000, 21_600_000])


def test_what_is_configured_reaches_the_doors(tmp_path: Path) -> None:
    config = """
[admin]
body_size_max = "2MiB"
hosts = ["queues.example"]
[limits]
scans_per_user = 2
bulk_read_share_percent = 25
[qms]
station_lease_s = 7
clock = "utc"
[ping]
first = true
target_port = 3528
"""
    seen: list[object] = []

    def look(service: Service, places: list[DoorAddress]) -> None:
        (node,) = [place.door._node for place in places if isinstance(place.door, BinaryServer)]
        (admin,) = [place.door.admin for place in places if type(place.door) is AdminServer]
        seen.append((admin.settings.body_size_max, "queues.example" in admin.hosts))
        services = admin.services
        seen.append((services.scans._per_user, services.pace._share, services.station_lease_ms))
        seen.append(service.desk.manager.jobs.utc_offset_s is local_offset_s)
        seen.append((node.protocol.pinger.goes_first, node._ping_port))

    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        pass

    assert serve(tmp_path, config, client, look) == Outcome(STOPPED)
    assert seen == [(2 << 20, True), (2, 0.25, 7_000), False, (True, 3528)]


@pytest.mark.spec("MS-MQQB 2.1.1/2", "MS-MQQB 2.1.2/2")
def test_the_binary_protocol_and_pings_listen_where_the_settings_say(tmp_path: Path) -> None:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        for probe in (tcp, udp):
            probe.bind(("127.0.0.1", 0))
        binary, ping = tcp.getsockname()[1], udp.getsockname()[1]

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert (found["binary"], found["ping"]) == (f"127.0.0.1:{binary}", f"127.0.0.1:{ping}")

    config = f"[binary]\nport = {binary}\n[ping]\nport = {ping}"
    assert serve(tmp_path, config, client) == Outcome(STOPPED)


@pytest.mark.spec("MS-MQQB 2.1.2/4")
@pytest.mark.parametrize(
    ("config", "endpoints"),
    [
        ("[ping]\nanswer = false", ALL - {"ping"}),
        ("[rpc]\nenabled = false", ALL - {"rpc", "epm"}),
        ("[epm]\nenabled = false", ALL - {"epm"}),
        pytest.param(
            "[queue_manager]\nhardened = true",
            {"control", "admin"},
            marks=pytest.mark.spec("MS-MQDMPR 3.1.1.1/17"),
        ),
    ],
)
def test_pings_and_the_binary_protocol_can_be_switched_off(
    tmp_path: Path, config: str, endpoints: set[str]
) -> None:
    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert set(found) == endpoints

    assert serve(tmp_path, config, client) == Outcome(STOPPED)


def test_a_certificate_makes_the_endpoint_speak_tls(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for name in ("localhost.pem", "localhost.key"):
        shutil.copy(CERTIFICATES / name, tmp_path / "home" / name)
    config = "[admin]\ncertificate = 'localhost.pem'\nprivate_key = 'localhost.key'"
    trusting = ssl.create_default_context(cafile=str(CERTIFICATES / "localhost.pem"))

    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        url = f"https://{endpoints['admin']}/healthz"
        async with aiohttp.request("GET", url, ssl=trusting) as response:
            assert response.status == 200

    assert serve(tmp_path, config, client) == Outcome(STOPPED)


def test_a_certificate_that_cannot_be_used_is_a_clear_refusal(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("no certificate")
    (tmp_path / "posthouse.toml").write_text(
        "[admin]\ncertificate = 'c.pem'\nprivate_key = 'c.pem'"
    )
    with pytest.raises(NotStarted, match=r"\[admin\] certificate .*c\.pem.* PEM"):
        run(Options(tmp_path, name="ALPHA", ports=PortSet.EPHEMERAL), standard_doors)


def test_a_key_table_that_cannot_be_used_is_a_clear_refusal(tmp_path: Path) -> None:
    (tmp_path / "posthouse.toml").write_text("[rpc]\nkeytab = 'nothing.keytab'")
    with pytest.raises(NotStarted, match=r"\[rpc\] keytab"):
        run(Options(tmp_path, name="ALPHA", ports=PortSet.EPHEMERAL), standard_doors)


def test_a_backup_is_made_while_it_runs(tmp_path: Path) -> None:
    target = tmp_path / "copy"

    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        async with session.post("/api/v1/backup", json={"directory": str(target)}) as response:
            assert response.status == 200, await response.text()

    assert serve(tmp_path, "", client) == Outcome(STOPPED)
    assert read_manifest(target).name == "ALPHA"
    assert "backup_made" in (tmp_path / "home" / "logs" / "posthouse.log").read_text()


# -- remote read


def test_remote_read_and_its_mapper_listen_where_the_settings_say(tmp_path: Path) -> None:
    with socket.socket() as first, socket.socket() as second:
        for probe in (first, second):
            probe.bind(("127.0.0.1", 0))
        rpc, epm = first.getsockname()[1], second.getsockname()[1]

    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert (found["rpc"], found["epm"]) == (f"127.0.0.1:{rpc}", f"127.0.0.1:{epm}")

    config = f"[rpc]\nport = {rpc}\n[epm]\nport = {epm}"
    assert serve(tmp_path, config, client) == Outcome(STOPPED)


def test_a_mapper_that_cannot_listen_is_missed_in_the_log(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        assert "rpc" in endpoints
        assert "epm" not in endpoints

    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = f"[epm]\nport = {taken.getsockname()[1]}"
        assert serve(tmp_path, config, client) == Outcome(STOPPED)
    log = (tmp_path / "home" / "logs" / "posthouse.log").read_text()
    assert "epm_not_listening" in log
    assert "CAP_NET_BIND_SERVICE" in log


def test_a_mapper_that_was_asked_for_has_to_listen(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, endpoints: dict[str, str]) -> None:
        raise AssertionError("it is not started")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = f"[epm]\nenabled = true\nport = {taken.getsockname()[1]}"
        with pytest.raises(NotStarted, match="epm cannot listen"):
            serve(tmp_path, config, client)


@pytest.mark.spec("MC-MQSRM 2.1.1/3", "MS-MQDMPR 3.1.1.1/17")
def test_a_hardened_machine_listens_for_https_only(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert set(found) == {"control", "admin", "https"}
        url = f"https://{found['https']}/msmq/q"
        async with aiohttp.request("GET", url, ssl=False) as response:
            assert response.status == 405
            assert response.headers["Allow"] == "POST"

    config = "[queue_manager]\nhardened = true\n" + https_section()
    assert serve(tmp_path, config, client) == Outcome(STOPPED)


def test_http_and_https_are_two_endpoints_of_one_protocol(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        assert set(found) == ALL | {"https"}
        async with aiohttp.request("GET", f"http://{found['http']}/msmq/q") as response:
            assert response.status == 405
        url = "http://localhost/metrics"
        async with session.get(url) as response:
            assert 'posthouse_srmp_requests_total{status="405"} 1.0' in await response.text()

    assert serve(tmp_path, https_section(), client) == Outcome(STOPPED)


@pytest.mark.spec("MS-MQDMPR 3.1.1/5")
def test_all_doors_lead_to_one_queue_manager(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        async with session.post("/api/v1/queues", json={"path": r".\private$\q"}) as made:
            assert made.status == 201
        host, port = found["binary"].split(":")

        def send_binary() -> None:
            with posthouse.msmq(host, binary_port=int(port), timeout=10) as far:
                far.queue(r"private$\q").send(b"binary")

        await asyncio.get_running_loop().run_in_executor(None, send_binary)
        to = f"http://{found['http']}/msmq/private$/q"
        envelope = ENVELOPE.format(to=to, number=1, guid=GUID)
        head = {"Content-Type": "text/xml", "SOAPAction": '"MSMQMessage"'}
        async with aiohttp.request("POST", to, data=envelope, headers=head) as response:
            assert response.status == 200, await response.text()
        at = "/api/v1/queues/" + quote(r".\private$\q", safe="")
        async with session.post(f"{at}/messages", json={"label": "api"}) as sent:
            assert sent.status == 201, await sent.text()
        async with session.get(f"{at}/messages") as response:
            shown = (await json_of(response))["messages"]
        assert sorted(message["label"] for message in shown) == ["", "api", "label"]
        assert len({message["lookup_id"] for message in shown}) == 3

        def receive_afar() -> int:
            host, port = found["rpc"].split(":")
            with posthouse.msmq(
                host, rpc_port=int(port), user="anna", password="correct horse", timeout=10
            ) as far:
                queue = far.queue(r"private$\q")
                return sum(queue.receive(0) is not None for _ in shown)

        anna = {"name": "anna", "password": "correct horse", "doors": ["rpc"]}
        async with session.post("/api/v1/users", json=anna) as made:
            assert made.status == 201, await made.text()
        grant = {"who": "anna", "rights": ["receive", "peek"]}
        async with session.post(f"{at}/access/grant", json=grant) as given:
            assert given.status == 200, await given.text()
        assert await asyncio.get_running_loop().run_in_executor(None, receive_afar) == 3
        async with session.get(f"{at}/messages") as response:
            assert (await json_of(response))["messages"] == []

    assert serve(tmp_path, "", client) == Outcome(STOPPED)


def test_a_client_certificate_may_be_required(tmp_path: Path) -> None:
    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        url = f"https://{found['https']}/msmq/q"
        with pytest.raises(aiohttp.ClientError):
            async with aiohttp.request("GET", url, ssl=False):
                pass

    authorities = f'client_authorities = "{CERTIFICATES / "localhost.pem"}"\n'
    config = https_section() + 'client_verification = "required"\n' + authorities
    assert serve(tmp_path, config, client) == Outcome(STOPPED)


@pytest.mark.parametrize(
    "config",
    [
        '[https]\ncertificate = "none.pem"\nprivate_key = "none.key"',
        '[srmp]\nauthorities = "none.pem"',
        '[srmp]\nclient_certificate = "none.pem"\nclient_key = "none.key"',
    ],
)
def test_certificates_of_https_that_are_not_there_are_told(tmp_path: Path, config: str) -> None:
    async def client(session: aiohttp.ClientSession, found: dict[str, str]) -> None:
        raise AssertionError("it has started")

    with pytest.raises(NotStarted, match="cannot be used"):
        serve(tmp_path, config, client)


def https_section() -> str:
    files = CERTIFICATES / "localhost.pem", CERTIFICATES / "localhost.key"
    return f'[https]\ncertificate = "{files[0]}"\nprivate_key = "{files[1]}"\n'
