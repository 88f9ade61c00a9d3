"""Idle connections of strangers take neither the store's descriptors nor the others' places."""

from __future__ import annotations

import http.client
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from tests.conftest import Dose
from tests.process.nginx import make_certificate
from tests.process.serving import Serving

FILES = 900  # descriptors of the server: far fewer than the connections that it is offered
SETTINGS = '[store]\nsegment_size = "1MiB"\n'


def occupy(stack: ExitStack, address: str, endpoint: str, count: int) -> int:
    """Opens connections from an address of its own and says nothing; how many are still open."""
    host, _, port = endpoint.rpartition(":")
    for _ in range(count):
        one = socket.socket()
        stack.enter_context(one)
        one.settimeout(5)
        one.bind((address, 0))
        one.connect((host, int(port)))
    return count


def healthy(endpoint: str) -> int:
    host, _, port = endpoint.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("doors", "limits"),
    [
        (("binary", "http"), ""),
        (("https",), '[https]\ncertificate = "https.pem"\nprivate_key = "https.key"\n'),
        (("admin",), "[limits]\nconnections_max = 300\nconnections_per_address_max = 100\n"),
    ],
    ids=["messages", "before TLS", "management"],
)
def test_the_store_goes_on_and_other_addresses_get_in(
    tmp_path: Path, dose: Dose, doors: tuple[str, ...], limits: str
) -> None:
    """It used to end with `Too many open files`, and to keep others out."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "posthouse.toml").write_text(SETTINGS + limits)
    make_certificate(tmp_path / "home" / "https.pem", tmp_path / "home" / "https.key")
    with Serving(tmp_path, "--name", "ALPHA", files=FILES) as server, ExitStack() as stack:
        endpoints = server.ready()["endpoints"]
        qm = stack.enter_context(posthouse.connect(home=server.home))
        queue = qm.create_queue(r".\private$\orders")
        for number in range(2, 2 + dose(8, 40)):
            for door in doors:
                occupy(stack, f"127.0.0.{number}", endpoints[door], 80)
        for _ in range(8):  # several segments, and a checkpoint
            queue.send(bytes(700_000), recoverable=True)
        assert queue.count() == 8
        for _ in range(5):
            assert healthy(endpoints["admin"]) == 200
        with posthouse.connect(home=server.home) as another:
            assert another.queue(r".\private$\orders").count() == 8
    assert "few_files_allowed" in server.log()
