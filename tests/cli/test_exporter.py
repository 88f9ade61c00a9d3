"""`posthouse exporter`: metrics of machines without an agent, for scrapers good and bad."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from posthouse.cli.machines.exporter import _logins
from posthouse.cli.machines.options import Asking
from posthouse.client.remote.exporter import CONNECTIONS_MAX, Exporter, ExporterServer
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.model.property_ids import Vt
from posthouse.rpc.propvariant import NULL, Variant, text, texts
from posthouse.rpc.security import Level
from tests.cli.conftest import Posthouse
from tests.cli.moving import ADMIN, far_machine
from tests.client.managed_peer import ManagedPeer
from tests.client.read_serving import PASSWORD

NOBODY = RemoteLogin(level=Level.NONE)
ORDER = ("queue", "destination", "kind", "state")


@pytest.fixture
def peer() -> Iterator[ManagedPeer]:
    made = ManagedPeer()
    made.add("orders", messages=3, size=900)
    made.add("idle", active=False)
    made.add_outgoing(r"DIRECT=OS:far\private$\in", "WAITING", 5, ["IP=10.0.0.2"])
    made.machine[6] = Variant(Vt.I8, 12_345)
    for word in ("deadletter", "deadxact", "journal"):
        made.queues[f"system$;{word}"] = 0xC00E0004
    yield made
    made.close()


@contextmanager
def exporting(
    *ports: int, every_s: float = 3600, login: Callable[[], RemoteLogin] = lambda: NOBODY
) -> Iterator[ExporterServer]:
    places = [RemotePlace("127.0.0.1", port) for port in ports]
    exporter = Exporter(places, login, every_s=every_s, timeout_s=5)
    server = ExporterServer(("127.0.0.1", 0), exporter)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    exporter.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        exporter.stop()
        thread.join()


def fetched(server: ExporterServer, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def ready(server: ExporterServer) -> None:
    for _ in range(2000):
        if server.exporter.is_ready:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the machines were not asked")


def samples(server: ExporterServer) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by metric, then by labels without the machine."""
    status, page = fetched(server)
    assert status == 200
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = tuple(sample.labels[key] for key in ORDER if key in sample.labels)
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_queues_are_metrics_and_empty_ones_stay(peer: ManagedPeer) -> None:
    with exporting(peer.port) as server:
        ready(server)
        found = samples(server)
        assert found["msmq_up"] == {(): 1}
        assert found["msmq_connected"] == {(): 1}
        assert found["msmq_bytes_in_all_queues"] == {(): 12_345}
        assert found["msmq_queue_messages"] == {
            (r"winhost\private$\orders", "private"): 3,
            (r"winhost\private$\idle", "private"): 0,
            (r"winhost\system$;deadletter", "system"): 0,
            (r"winhost\system$;deadxact", "system"): 0,
            (r"winhost\system$;journal", "system"): 0,
        }
        assert found["msmq_queue_bytes"][r"winhost\private$\orders", "private"] == 900
        far = r"DIRECT=OS:far\private$\in", "waiting"
        assert found["msmq_outgoing_messages"] == {far: 5}
        assert found["msmq_outgoing_bytes"] == {far: 500}
        assert "msmq_scan_problems" not in found
        assert fetched(server, "/health") == (200, "ready\n")
        assert fetched(server, "/")[0] == 404
        assert fetched(server, method="POST")[0] == 501


def test_scrapes_show_what_was_found_and_ask_nothing(peer: ManagedPeer) -> None:
    with exporting(peer.port) as server:
        ready(server)
        asked = len(peer.calls)
        for _ in range(5):
            assert samples(server)["msmq_up"] == {(): 1}
        assert len(peer.calls) == asked


def test_machines_are_asked_again_and_again(peer: ManagedPeer) -> None:
    with exporting(peer.port, every_s=0.01) as server:
        ready(server)
        peer.await_calls(0, 40)
        assert samples(server)["msmq_up"] == {(): 1}


def test_a_machine_that_is_away_is_down_and_hides_no_other(peer: ManagedPeer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    with exporting(peer.port, closed) as server:
        ready(server)
        _, page = fetched(server)
        assert f'msmq_up{{machine="127.0.0.1:{peer.port}"}} 1.0' in page
        assert f'msmq_up{{machine="127.0.0.1:{closed}"}} 0.0' in page
        assert f'msmq_scan_problems{{kind="port",machine="127.0.0.1:{closed}"}} 1.0' in page


def test_before_the_first_answer_nothing_is_claimed(peer: ManagedPeer) -> None:
    peer.info_instead = lambda request, call: None
    with exporting(peer.port) as server:
        assert fetched(server, "/health") == (503, "asking\n")
        assert fetched(server)[0] == 200


def test_names_of_peers_cannot_break_the_page(peer: ManagedPeer) -> None:
    hostile = 'a"b\\c\nmsmq_up{machine="x"} 99'
    peer.machine[1] = texts([r"DIRECT=OS:far\private$\in", r"DIRECT=OS:far\private$\in"])
    found = peer.queues[r"direct=os:far\private$\in"]
    assert isinstance(found, dict)
    found[2], found[11], found[12] = text(hostile), text(hostile), NULL
    with exporting(peer.port) as server:
        ready(server)
        found_again = samples(server)
        assert found_again["msmq_up"] == {(): 1}
        assert list(found_again["msmq_outgoing_messages"]) == [(hostile, hostile.lower())]


def test_connections_that_say_nothing_take_a_bounded_number_of_threads(
    peer: ManagedPeer,
) -> None:
    with exporting(peer.port) as server:
        ready(server)
        before = threading.active_count()
        where = ("127.0.0.1", server.server_address[1])
        idle = [socket.create_connection(where) for _ in range(3 * CONNECTIONS_MAX)]
        for one in idle[CONNECTIONS_MAX:]:
            one.settimeout(5)
            assert one.recv(1) == b""  # closed at once
        assert threading.active_count() <= before + CONNECTIONS_MAX
        for one in idle:
            one.close()
        for _ in range(1000):
            try:
                assert fetched(server)[0] == 200
                break
            except (ConnectionError, http.client.HTTPException):
                threading.Event().wait(0.01)
        else:
            raise AssertionError("no room again")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["host", "--listen", "nowhere"],
        ["host", "--listen", "127.0.0.1:99999"],
        ["host", "--listen", "192.0.2.1:0"],
        ["host", "--every", "10ms"],
        ["host", "--password-file", "x"],
    ],
)
def test_wrong_usage_is_told(posthouse: Posthouse, words: list[str]) -> None:
    done = posthouse("exporter", *words)
    assert done.code == 2
    assert done.err


def test_a_refused_login_is_not_tried_again_until_the_password_changes(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("wrong\n")
    turns, login = threading.Semaphore(0), _logins(Asking(user=ADMIN, password_file=password))

    def counted() -> RemoteLogin:
        turns.release()
        return login()

    def await_turns() -> None:
        assert all(turns.acquire(timeout=10) for _ in range(20))

    with far_machine() as far:
        refusals = far.reads.remote.logins
        with exporting(far.rpc_port, every_s=0.01, login=counted) as server:
            await_turns()
            assert refusals.refusals == 1
            label = f'machine="127.0.0.1:{far.rpc_port}"'
            page = fetched(server)[1]
            assert f'msmq_scan_problems{{kind="login",{label}}} 1.0' in page
            assert f"msmq_up{{{label}}} 0.0" in page
            password.unlink()  # as while it is replaced
            await_turns()
            password.write_text(PASSWORD + "\n")
            await_turns()
            await_turns()
            assert f"msmq_up{{{label}}} 1.0" in fetched(server)[1]
            assert refusals.refusals == 1
