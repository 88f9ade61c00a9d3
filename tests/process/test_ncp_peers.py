"""Foreign clients of NCP, and clients that are none, against a real server."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.client.ncp.core import NcpLost
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.model.errors import QmsError
from tests.process.ncp_house import HOST, NcpHouse, client, submit
from tests.process.serving import Serving

# nmap's own script goes on with calls of NDS; its library stops where we tell it to.
SCRIPT = """
local ncp = require "ncp"
description = "What the server says of itself."
categories = {"safe"}
portrule = function() return true end
action = function(host, port)
  local helper = ncp.Helper:new(host, port)
  local status, problem = helper:connect()
  if not status then return "no connection: " .. tostring(problem) end
  local known, info = helper.ncp:GetFileServerInfo()
  local pinged = helper.ncp:Ping()
  helper:close()
  if not known then return "no information: " .. tostring(info) end
  return ("%s %d.%d nds %s"):format(info.srvname, info.os_major, info.os_minor, tostring(pinged))
end
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NcpHouse]:
    with ExitStack() as running:
        yield NcpHouse(tmp_path_factory.mktemp("ncp"), running, name="ALPHA")


@pytest.mark.peer("nmap")
@pytest.mark.spec("NCP session/6", "NCP session/3")
def test_nmap_learns_name_and_version_and_that_there_is_no_nds(
    house: NcpHouse, tmp_path: Path
) -> None:
    script = tmp_path / "told.nse"
    script.write_text(SCRIPT)
    command = ["nmap", "-Pn", "-n", "-sT", "-p", str(house.port), "--script", f"+{script}", HOST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = done.stdout.replace("\\x00", "")  # it shows the whole field of the name
    assert "told: ALPHA 3.12 nds false" in told, done.stdout


@pytest.mark.spec("NCP TCP/6")
@pytest.mark.parametrize(
    ("settings", "address"), [("", HOST), ('[ncp]\nlisten = "127.0.0.2"\n', "127.0.0.2")]
)
def test_only_its_own_setting_moves_it(tmp_path: Path, settings: str, address: str) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "posthouse.toml").write_text(settings)
    with Serving(tmp_path, "--listen", "127.0.0.3") as serving:
        endpoints = serving.ready()["endpoints"]
        assert endpoints["binary"].startswith("127.0.0.3:")
        assert endpoints["ncp"].startswith(f"{address}:")


@pytest.mark.parametrize("udp", [False, True], ids=["tcp", "udp"])
def test_a_job_goes_its_way(house: NcpHouse, udp: bool) -> None:
    data = bytes(range(256)) * 1000
    with house.client("ALICE", udp=udp) as alice, house.client("SERVER", 5, udp=udp) as server:
        number = submit(alice, house.queue, data, job_type=3)
        server.attach_queue_server_to_queue(house.queue)
        job = server.service_queue_job(house.queue, (3,))
        assert job.job_number == number
        assert server.read_file(job.job_file_handle, 0, 1 << 20) == data
        server.finish_servicing_queue_job(house.queue, number)
        assert alice.get_queue_job_list(house.queue).total == 0


@pytest.mark.spec("NCP TCP/4")
def test_garbage_ends_its_own_connection_only(house: NcpHouse) -> None:
    with house.client("ALICE") as alice:
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"DmdT\xff\xff\xff\xff", b"\0" * 100):
            with socket.create_connection((HOST, house.port), 30) as stranger:
                stranger.sendall(garbage)
                stranger.settimeout(30)
                with pytest.raises(ConnectionError):
                    _until_closed(stranger)
        assert alice.get_queue_job_list(house.queue).total == 0


def _until_closed(connection: socket.socket) -> None:
    """A connection that is ended hard, or softly, which counts here as well."""
    while connection.recv(4096):
        pass
    raise ConnectionResetError


@pytest.mark.spec("NCP session/7", "NCP lost connections/1", "NCP lost connections/2")
def test_a_client_that_is_gone_leaves_nothing_open(house: NcpHouse) -> None:
    alice = house.client("ALICE")
    server = house.client("SERVER", NWOT_JOB_SERVER)
    server.attach_queue_server_to_queue(house.queue)
    number = submit(alice, house.queue, b"data", job_control_flags=0x10)
    assert server.service_queue_job(house.queue).job_number == number
    server.link._socket.close()  # as when the process dies
    with pytest.raises((NcpLost, OSError, ValueError)):
        server.get_queue_job_list(house.queue)
    other = house.client("SERVER", NWOT_JOB_SERVER)
    other.attach_queue_server_to_queue(house.queue)
    assert _taken(other, house.queue) == number
    other.finish_servicing_queue_job(house.queue, number)
    other.close()
    alice.close()


def _taken(server: NcpCalls, queue: int) -> int:
    """The queue manager notices the end of a connection a little later."""
    while True:
        try:
            return server.service_queue_job(queue).job_number
        except QmsError as error:
            if error.completion != 0xD5:
                raise


def test_connections_are_refused_politely_where_nobody_listens() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NcpLost):
        client(port)
