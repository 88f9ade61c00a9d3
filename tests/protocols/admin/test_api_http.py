"""The admin endpoint on the wire: Host, Origin, tokens, limits, malformed requests, the socket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from posthouse.net import control_socket as control
from posthouse.net.connections import Connections
from posthouse.protocols.http.server import AdminServer
from posthouse.protocols.http.settings import AdminSettings
from posthouse.protocols.memory import SEND
from tests.engine.settings import engine_settings
from tests.protocols.admin.api_rig import ORDERS, ApiRig, at, with_api

STATUS = "/api/v1/status"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8816", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8816", 200),
        ("192.0.2.7", 200),
        ("alpha", 200),
        ("Alpha.example.com.", 200),
        ("queues.example.net", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("alpha@evil.example", 403),
        ("[::1].evil.example", 403),
        ("127.0.0.1:80@evil.example", 403),
        ("127.0.0.1:80:80", 403),
        ("localhost:", 403),
        ("", 403),
    ],
)
def test_only_our_own_names_are_answered(host: str, status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        reply = await rig.get(STATUS, headers={"Host": host})
        assert reply.status == status

    settings = AdminSettings(hosts=("Queues.example.NET",))
    engine = engine_settings("ALPHA", dns_domain="example.com")
    with_api(tmp_path, work, settings, engine)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:1", 200),
        ("HTTP://LOCALHOST:1", 200),
        ("http://localhost:2", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_foreign_pages_are_turned_away(origin: str, status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        headers = {"Host": "localhost:1", "Origin": origin}
        assert (await rig.get(STATUS, headers=headers)).status == status

    with_api(tmp_path, work)


def test_a_request_without_or_with_two_hosts_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        token = rig.tokens["administer"]
        for hosts in ("", "Host: localhost\r\nHost: localhost\r\n"):
            request = (
                f"GET {STATUS} HTTP/1.1\r\n{hosts}Authorization: Bearer {token}\r\n"
                "Connection: close\r\n\r\n"
            )
            assert (await rig.raw(request.encode())).split()[1] == b"400"

    with_api(tmp_path, work)


def test_browsers_show_the_token_as_a_password_for_what_they_look_at(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        secret = base64.b64encode(f"me:{rig.tokens['read']}".encode()).decode()
        headers = {"Authorization": f"Basic {secret}"}
        for path in ("/", "/metrics", "/api/v1/openapi.json"):
            assert (await rig.get(path, token=None, headers=headers)).status == 200
            refused = await rig.get(path, token=None)
            assert refused.status == 401
            assert refused.headers["WWW-Authenticate"].startswith("Basic")
            for wrong in ("Basic", "Basic !!", "Basic bWU6eA==", "Digest x", "Bearer"):
                bad = await rig.get(path, token=None, headers={"Authorization": wrong})
                assert bad.status == 401
        assert (await rig.get(STATUS, token=None, headers=headers)).status == 401

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'{"path": ',
        b"[" * 100_000,
        b'{"path": "\xff"}',
        b'{"path": "\\ud800"}',
        b'{"path": NaN}',
        b"\x00",
        b"null",
        b'{"path": 7}',
        b'{"path": "x", "path2": 1}',
        b"<order/>",
    ],
)
def test_malformed_bodies_get_400_and_change_nothing(raw: bytes, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        reply = await rig.post("/api/v1/queues", raw=raw)
        assert reply.status == 400
        assert reply.json["error"]["cause"].startswith("the body: ")
        assert reply.json["error"]["remedy"]
        assert (await rig.get("/api/v1/queues")).json["queues"] == []

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/queues?limit=0", 400),
        ("/api/v1/queues?limit=many", 400),
        ("/api/v1/queues?limit=1&limit=2", 400),
        ("/api/v1/queues?colour=red", 400),
        ("/api/v1/queues?system=perhaps", 400),
        ("/api/v1/queues?limit", 400),
        ("/api/v1/queues?limit=%ff", 400),
        ("/api/v1/queues?" + "&".join(f"a{n}=1" for n in range(100)), 400),
        ("/api/v1/queues/%ff", 400),
        ("/api/v1/queues/x?queue=y", 400),
        ("/api/v1/queues/", 404),
        ("/api/v1/queues//messages", 404),
        ("/api/v2/queues", 404),
        ("/api/v1", 404),
        ("/favicon.ico", 404),
        ("/api/v1/queues/none", 404),
        ("/api/v1/queues/non*sense", 422),
        ("/api/v1/queues/.%5Cprivate$%5Cnone", 404),
        ("/api/v1/queues/%00", 422),
        (f"/api/v1/queues/{'x' * 1025}", 400),
        (at() + "/messages/seven", 400),
        (at() + "/messages?after=7", 400),
    ],
)
def test_odd_paths_and_queries(path: str, status: int, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        reply = await rig.get(path)
        assert reply.status == status, reply
        assert reply.json["error"]["cause"]

    with_api(tmp_path, work)


def test_methods_that_a_path_lacks(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        reply = await rig.ask("PUT", "/api/v1/queues")
        assert (reply.status, reply.headers["Allow"]) == (405, "GET, POST")
        assert (await rig.ask("OPTIONS", STATUS)).headers["Allow"] == "GET"
        assert (await rig.ask("DELETE", "/metrics")).status == 405
        assert (await rig.ask("BREW", STATUS)).status == 400
        head = await rig.ask("HEAD", STATUS)
        assert (head.status, head.text) == (200, "")

    with_api(tmp_path, work)


def test_bodies_where_none_or_another_is_due(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        assert (await rig.post(at() + "/purge", {})).status == 400
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await rig.post("/api/v1/queues", raw=b"{}", headers=form)).status == 415
        packed = {"Content-Encoding": "gzip"}
        assert (await rig.post("/api/v1/queues", raw=b"{}", headers=packed)).status == 415
        fine = {"Content-Type": "Application/JSON; charset=utf-8"}
        body = json.dumps({"path": r".\private$\x"}).encode()
        assert (await rig.post("/api/v1/queues", raw=body, headers=fine)).status == 201

    with_api(tmp_path, work)


def test_a_name_that_comes_twice_in_a_body_is_refused(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        twice = b'{"path": ".\\\\private$\\\\one", "path": ".\\\\private$\\\\two"}'
        reply = await rig.post("/api/v1/queues", raw=twice)
        assert reply.status == 400
        assert "'path' is there twice" in reply.json["error"]["cause"]
        assert (await rig.get("/api/v1/queues")).json["queues"] == []

    with_api(tmp_path, work)


def test_a_request_without_a_version_is_not_answered(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        for line in (b"GET /healthz\r\n\r\n", b"GET /healthz HTTP/0.9\r\nHost: localhost\r\n\r\n"):
            assert b" 200 " not in (await rig.raw(line)).splitlines()[0]

    with_api(tmp_path, work)


def test_large_bodies_are_refused_before_and_while_they_come(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        large = b'{"path": "' + b"x" * 200_000 + b'"}'
        reply = await rig.post("/api/v1/queues", raw=large)
        assert (reply.status, reply.json["error"]["name"]) == (413, "MQ_ERROR")
        token = rig.tokens["administer"]
        head = (
            "POST /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nConnection: close\r\n"
        )
        chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
        chunked += b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        chunked += b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        chunked += b"8000\r\n" + b"x" * 0x8000 + b"\r\n0\r\n\r\n"
        assert (await rig.raw(chunked)).startswith(b"HTTP/1.1 413 ")
        broken = f"{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode()
        assert (await rig.raw(broken)).split()[1] == b"400"
        assert (await rig.get(STATUS)).status == 200

    with_api(tmp_path, work, AdminSettings(body_size_max=65_536))


def test_a_large_message_goes_in_and_out(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        await rig.create()
        text = "x" * 4_000_000
        await rig.send(body_text=text)
        (message,) = (await rig.get(at() + "/messages")).json["messages"]
        assert message["body_text"] == text
        too_large = await rig.post(at() + "/messages", {"body_text": "x" * (4 << 20)})
        assert too_large.status == 507

    with_api(tmp_path, work)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api/v1/status HTTP/1.1\r\nBad Header\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"x" * 20_000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_http_gets_one_error_in_json(data: bytes, tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        answer = await rig.raw(data)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split()[1] == b"400"
        assert json.loads(body)["error"]["cause"]
        assert (await rig.get(STATUS)).status == 200

    with_api(tmp_path, work)


def test_slow_headers_and_slow_bodies_end(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert await rig.raw(b"GET /api/v1/status HT") == b""
        token = rig.tokens["administer"]
        head = (
            "POST /api/v1/queues HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n"
        )
        assert b"did not arrive in time" in await rig.raw(head.encode())
        idle = await rig.raw(f"GET {STATUS} HTTP/1.1\r\nHost: localhost\r\n\r\nGET /".encode())
        assert idle.startswith(b"HTTP/1.1 401 ")
        assert rig.admin.traffic.refused["no request in time"] == 1

    settings = AdminSettings(header_timeout_s=0.05, body_timeout_s=0.05, idle_timeout_s=0.1)
    with_api(tmp_path, work, settings)


def test_too_many_connections_are_turned_away(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        server = AdminServer(rig.admin, Connections(1, 2))
        host, _, port = (await server.start("127.0.0.1", 0)).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        second, other = await asyncio.open_connection(host, int(port))
        with suppress(ConnectionError):
            assert await second.read() == b""
        writer.close()
        other.close()
        await server.stop(1.0)
        assert rig.admin.traffic.refused["too many connections"] == 1
        assert server.connections.count == 0

    with_api(tmp_path, work)


# -- the control socket


async def over_socket(rig: ApiRig, path: str) -> tuple[int, Any]:
    connector = aiohttp.UnixConnector(rig.socket)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"http://home{path}") as response,
    ):
        return response.status, await response.json()


def test_the_control_socket_is_the_administrators(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        assert stat.S_IMODE(Path(rig.socket).stat().st_mode) == 0o600
        assert Path(rig.socket) == control.find(tmp_path) == tmp_path / "control.sock"
        await rig.create()
        status, users = await over_socket(rig, "/api/v1/users")
        assert (status, users) == (200, {"users": []})
        status, queue = await over_socket(rig, at(ORDERS))
        assert (status, queue["path"]) == (200, r"ALPHA\private$\orders")

    with_api(tmp_path, work)
    assert not (tmp_path / "control.sock").exists()


def test_a_deep_home_names_its_socket(tmp_path: Path) -> None:
    home = tmp_path / ("deep" * 20) / ("home" * 20)
    home.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as short:
        check_deep_home(home, Path(short))
    too_long = {"XDG_RUNTIME_DIR": str(home)}
    assert control.socket_path(home, too_long) == control.socket_path(home, {})


def check_deep_home(home: Path, runtime: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(runtime)}
    path = control.prepare(home, environment)
    assert path.parent == runtime / "posthouse"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(os.fsencode(control.socket_path(home, {}))) <= control.SOCKET_PATH_MAX
    assert control.find(home) == path
    assert control.prepare(home, environment) == path
    path.parent.chmod(0o755)
    with pytest.raises(PermissionError):
        control.prepare(home, environment)


def test_a_short_home_forgets_an_old_pointer(tmp_path: Path) -> None:
    (tmp_path / "control").write_text("/somewhere/else\n")
    assert control.prepare(tmp_path) == tmp_path / "control.sock"
    assert control.find(tmp_path) == tmp_path / "control.sock"


def test_a_handshake_has_no_more_time_than_a_header(tmp_path: Path) -> None:
    async def work(rig: ApiRig) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        data = Path(__file__).parents[2] / "client" / "data"
        tls.load_cert_chain(data / "certificate.pem", data / "key.pem")
        server = AdminServer(rig.admin, tls=tls)
        host, _, port = (await server.start("127.0.0.1", 0)).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.read() == b""
        writer.close()
        await server.stop(1.0)

    with_api(tmp_path, work, AdminSettings(header_timeout_s=0.2), seconds=20)


def test_requests_are_read_in_small_pieces_and_sessions_in_large_ones(tmp_path: Path) -> None:
    """What aiohttp keeps is not counted; what a session keeps is."""

    async def work(rig: ApiRig) -> None:
        await rig.get("/api/v1/status")
        (one,) = rig.server.open
        assert len(one.get_buffer(-1)) == len(rig.admin.small_buffer)
        one.session = object()  # type: ignore[assignment]
        assert len(one.get_buffer(-1)) == len(rig.admin.buffer)
        rig.admin.memory.limit = 4000
        rig.admin.memory.open("elsewhere", print, lambda: None).take(SEND, 1001)
        assert len(one.get_buffer(-1)) == len(rig.admin.small_buffer)
        one.session = None

    with_api(tmp_path, work)
