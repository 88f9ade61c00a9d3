"""`posthouse scan`: machines that answer, machines that do not, and what is written."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

import posthouse as ph
from posthouse.cli.machines.scan import headline, write
from posthouse.client.remote.inventory import (
    QUEUES_MAX,
    MachineInventory,
    read_inventory,
)
from posthouse.model.property_ids import Vt
from posthouse.protocols.management.stubs import PropertyValues
from posthouse.rpc.propvariant import NULL, Variant, text, texts, vector
from tests.cli.conftest import Posthouse, closed_pipe, run_into
from tests.client.managed_peer import ManagedPeer
from tests.client.read_serving import SecretServing, read_serving

DENIED = 0xC00E0025
PUBLIC = "PUBLIC=00000000-0000-0000-0000-000000000001"
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"


@pytest.fixture
def peer() -> Iterator[ManagedPeer]:
    made = ManagedPeer()
    yield made
    made.close()


def at(peer: ManagedPeer) -> str:
    return f"127.0.0.1:{peer.port}"


def furnish(peer: ManagedPeer) -> None:
    peer.machine[6] = Variant(Vt.I8, 12_345)
    peer.add("orders", messages=3, size=900, p5=text("YES"), p9=Variant(Vt.UI4, 2))
    peer.add("idle", active=False)
    peer.queues[r"system$;deadletter"] = {3: text("MACHINE"), 7: Variant(Vt.UI4, 4)}
    peer.queues[r"system$;deadxact"] = 0xC00E0001  # MQ_ERROR, as some versions have it
    peer.queues[r"system$;journal"] = 0xC00E0004
    peer.add_outgoing(r"DIRECT=OS:far\private$\in", "WAITING", 5, ["IP=10.0.0.2"])
    peer.machine[1] = texts(
        (*peer.machine[1].value, r"PUBLIC=" + 8 * "0" + "-0000-0000-0000-" + 11 * "0" + "1")
    )  # type: ignore[misc]
    peer.queues[PUBLIC.casefold()] = {
        1: text(r"winhost\till"),
        3: text("PUBLIC"),
        4: text("LOCAL"),
        5: text("NO"),
        7: Variant(Vt.UI4, 1),
    }


# -- what there is


def test_a_machine_is_shown_with_all_its_queues(posthouse: Posthouse, peer: ManagedPeer) -> None:
    furnish(peer)
    done = posthouse("scan", at(peer), "--json")
    assert done.code == 0, done.err
    machine = done.value
    assert machine["host"] == "127.0.0.1"
    assert (machine["version"], machine["connected"]) == ("Windows 10.0.17763, MSMQ 6.3", True)
    assert machine["bytes"] == 12_345
    queues = {queue["path"]: queue for queue in machine["queues"]}
    assert queues.keys() == {r"winhost\private$\orders", r"winhost\private$\idle", r"winhost\till"}
    orders = queues[r"winhost\private$\orders"]
    assert (orders["messages"], orders["bytes"], orders["journal_messages"]) == (3, 900, 2)
    assert (orders["transactional"], orders["active"], orders["kind"]) == (True, True, "private")
    assert queues[r"winhost\private$\idle"]["active"] is False
    assert queues[r"winhost\till"]["kind"] == "public"
    dead = {queue["path"]: queue["messages"] for queue in machine["dead_letters"]}
    assert dead == {
        r"winhost\system$;deadletter": 4,
        r"winhost\system$;deadxact": 0,
        r"winhost\system$;journal": 0,
    }
    (outgoing,) = machine["outgoing"]
    assert outgoing["format_name"] == r"DIRECT=OS:far\private$\in"
    assert (outgoing["state"], outgoing["messages"]) == ("waiting", 5)
    assert outgoing["next_hops"] == ["IP=10.0.0.2"]
    assert machine["problems"] == []


def test_people_get_tables(posthouse: Posthouse, peer: ManagedPeer) -> None:
    furnish(peer)
    done = posthouse("scan", at(peer))
    assert "3 queues with 4 messages, 4 dead letters, 1 outgoing queue" in done.out
    assert r"winhost\private$\orders" in done.out
    assert "not active" in done.out
    assert "IP=10.0.0.2" in done.out


def test_a_real_queue_manager_is_scanned(posthouse: Posthouse, tmp_path: Path) -> None:
    with read_serving(SecretServing) as server:
        with ph.connect(server.home) as qm:
            body = {"name": "boss", "doors": ["rpc"], "password": "pw 12345678"}
            qm.call("POST", "/users", body | {"administrator": True})
            queue = qm.create_queue(r".\private$\orders", transactional=True, journal=True)
            with qm.transaction() as tx:
                queue.send_many(["one", "two", "three"], tx=tx)
            qm.queue(r"DIRECT=TCP:127.0.0.1:1\private$\far").send("lost")
        secret = tmp_path / "password"
        secret.write_text("pw 12345678\n")
        host = f"127.0.0.1:{server.rpc_port}"
        how = ("--user", "boss", "--json")
        done = posthouse("scan", host, *how, "--password-file", secret)
        assert done.code == 0, (done.out, done.err)
        machine = done.value
        (orders,) = machine["queues"]
        assert (orders["messages"], orders["transactional"]) == (3, True)
        assert [one["format_name"] for one in machine["outgoing"]] == [
            r"DIRECT=TCP:127.0.0.1:1\private$\far"
        ]
        assert posthouse("scan", host, *how, stdin=b"pw 12345678\n").code == 0
        wrong = posthouse("scan", host, *how, stdin=b"wrong\n")
        assert wrong.code == 1
        assert [problem["kind"] for problem in wrong.value["problems"]] == ["login"]
        body = {"name": "clerk", "doors": ["rpc"], "password": "pw 12345678"}
        with ph.connect(server.home) as qm:
            qm.call("POST", "/users", body)
        clerk = posthouse("scan", host, "--user", "clerk", "--json", stdin=b"pw 12345678\n")
        assert [problem["kind"] for problem in clerk.value["problems"]] == ["rights"]
        assert "administrator" in clerk.value["problems"][0]["remedy"]
        assert "pw 12345678" not in done.out + done.err + wrong.out + wrong.err


# -- what is written


def test_the_inventory_leads_to_the_same_machines_again(
    posthouse: Posthouse, peer: ManagedPeer, tmp_path: Path
) -> None:
    furnish(peer)
    file = tmp_path / "inventory.json"
    assert posthouse("scan", at(peer), "--output", file).code == 0
    (machine,) = read_inventory(file.read_bytes()).machines
    assert (machine.host, machine.port, len(machine.queues)) == ("127.0.0.1", peer.port, 3)
    assert machine.complete
    peer.add("new", messages=9)
    again = posthouse("scan", at(peer), "--inventory", file, "--json")
    assert len(again.value["queues"]) == 4  # one machine, once
    file.write_text('{"format": "something else"}')
    wrong = posthouse("scan", "--inventory", file)
    assert wrong.code == 1
    assert "not an inventory" in wrong.err


def test_the_page_is_one_file_and_believes_nothing(
    posthouse: Posthouse, peer: ManagedPeer, tmp_path: Path
) -> None:
    furnish(peer)
    peer.machine[5] = text(HOSTILE)
    peer.queues[r"private$\orders"][3] = text(HOSTILE)  # type: ignore[index]
    peer.add_outgoing("DIRECT=OS:x\\private$\\<b>", HOSTILE, 1, [HOSTILE])
    file = tmp_path / "machines.html"
    done = posthouse("scan", at(peer), "--html", file)
    found = file.read_text()
    for written in (found, done.out):
        assert "\x1b" not in written
        assert "\u202e" not in written
    assert "<script" not in found
    assert "&lt;script&gt;" in found
    assert "http" not in found.replace("http-equiv", "")
    assert r"winhost\private$\orders" in found


def test_an_inventory_is_as_private_as_the_one_that_it_replaces(
    posthouse: Posthouse, peer: ManagedPeer, tmp_path: Path
) -> None:
    furnish(peer)
    file = tmp_path / "inventory.json"
    for mode in (0o644, 0o600):
        assert posthouse("scan", at(peer), "--output", file).code == 0
        assert file.stat().st_mode & 0o777 == mode
        file.chmod(0o600)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert posthouse("scan", at(peer), "--output", pipe).code == 0
    assert len(read_inventory(os.read(reader, 1 << 16)).machines) == 1
    os.close(reader)
    assert pipe.is_fifo()


def test_an_inventory_is_not_shown_to_another_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may not give it the group of the earlier one closes it to the own one."""
    file = tmp_path / "inventory.json"
    file.touch(0o600)
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, -1, os.getegid() + 1)

    def refuse(handle: object, owner: int, group: int) -> None:
        raise PermissionError

    for name in ("chown", "fchown"):
        monkeypatch.setattr(os, name, refuse)
    write(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == (0o600 if os.geteuid() == 0 else 0o640)


def test_a_file_that_cannot_be_written_is_told_of(
    posthouse: Posthouse, peer: ManagedPeer, tmp_path: Path
) -> None:
    done = posthouse("scan", at(peer), "--output", tmp_path / "nowhere" / "inventory.json")
    assert done.code != 0
    assert "nowhere" in done.err
    assert list(tmp_path.iterdir()) == []


# -- what cannot be asked


@contextmanager
def listener(serve: Any) -> Iterator[int]:
    """Something that is not MSMQ."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        over = threading.Event()

        def run() -> None:
            with suppress(OSError):
                while not over.is_set():
                    connection, _ = listening.accept()
                    threading.Thread(target=serve, args=(connection, over), daemon=True).start()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        over.set()
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def silent(connection: socket.socket, over: threading.Event) -> None:
    with connection:
        over.wait(30)


def noisy(connection: socket.socket, over: threading.Event) -> None:
    with connection, suppress(OSError):
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
        over.wait(30)


def dripping(connection: socket.socket, over: threading.Event) -> None:
    """An answer that never ends: of a fragment that is announced as long, a byte at a time."""
    with connection, suppress(OSError):
        connection.recv(1000)
        connection.sendall(bytes.fromhex("05000c03100000000090000001000000"))
        while not over.wait(0.02):
            connection.sendall(b"\0")


def kinds(machine: dict[str, Any]) -> list[str]:
    return [problem["kind"] for problem in machine["problems"]]


@pytest.mark.parametrize(
    ("serve", "kind"),
    [(silent, "firewall"), (noisy, "network"), (dripping, "firewall")],
    ids=["silent", "noisy", "dripping"],
)
def test_what_is_not_msmq_is_one_line(posthouse: Posthouse, serve: Any, kind: str) -> None:
    with listener(serve) as port:
        done = posthouse("scan", f"127.0.0.1:{port}", "--timeout", "500ms", "--json")
    assert done.code == 3
    assert kinds(done.value) == [kind]
    assert done.value["reached"] is False


def test_a_closed_port_and_an_unknown_name_are_told_apart(posthouse: Posthouse) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = posthouse("scan", f"127.0.0.1:{port}", "no-such-host.invalid:2103", "--json")
    assert done.code == 3
    assert [kinds(machine) for machine in done.lines] == [["port"], ["name"]]
    remedies = [machine["problems"][0]["remedy"] for machine in done.lines]
    assert "HOST:PORT" in remedies[0]
    assert remedies[1].startswith("Check the spelling, DNS")
    told = posthouse("scan", f"127.0.0.1:{port}")
    assert "not reached" in told.out
    assert "Not asked (port)" in told.out


def test_a_machine_without_private_queues_is_asked_by_its_address(
    posthouse: Posthouse, peer: ManagedPeer
) -> None:
    """Windows takes its address for its own in TCP names only."""
    peer.queues[r"system$;deadletter"] = {3: text("MACHINE"), 7: Variant(Vt.UI4, 4)}
    machine = posthouse("scan", at(peer), "--json").value
    (dead,) = machine["dead_letters"]
    assert (dead["format_name"], dead["messages"]) == (
        r"DIRECT=TCP:127.0.0.1\system$;deadletter",
        4,
    )


def test_a_name_that_no_computer_has_does_not_end_the_scan(
    posthouse: Posthouse, peer: ManagedPeer
) -> None:
    peer.machine[2] = texts([f"{'a' * 600}\\private$\\x"])
    peer.add_outgoing(r"DIRECT=OS:far\private$\in", "WAITING", 5, ["IP=10.0.0.2"])
    machine = posthouse("scan", at(peer), "--json").value
    assert set(kinds(machine)) == {"queue"}
    assert [one["messages"] for one in machine["outgoing"]] == [5]


def test_some_machines_of_many(posthouse: Posthouse, peer: ManagedPeer) -> None:
    with listener(silent) as port:
        done = posthouse("scan", at(peer), f"127.0.0.1:{port}", "--timeout", "500ms", "--json")
    assert done.code == 1
    assert [machine["reached"] for machine in done.lines] == [True, False]


def test_queues_that_are_refused_do_not_hide_the_others(
    posthouse: Posthouse, peer: ManagedPeer
) -> None:
    furnish(peer)
    peer.add("secret")
    peer.queues[r"private$\secret"] = DENIED
    done = posthouse("scan", at(peer), "--json")
    assert done.code == 1
    assert kinds(done.value) == ["rights"]
    assert done.value["problems"][0]["what"] == r"DIRECT=OS:winhost\private$\secret"
    assert len(done.value["queues"]) == 3


def test_a_machine_that_answers_slowly_is_given_up_in_time(
    posthouse: Posthouse, peer: ManagedPeer
) -> None:
    peer.add("orders")
    peer.queues[r"private$\orders"] = 0xC00E0004
    original = peer._answer_info
    peer.info_instead = lambda request, call: (
        original(request, call) if request.object.type == 1 else None
    )
    done = posthouse("scan", at(peer), "--timeout", "500ms", "--json")
    assert done.code == 1
    assert done.value["reached"] is True
    assert kinds(done.value) in (["time"], ["network"])


def test_all_answers_of_a_machine_share_one_time(posthouse: Posthouse, peer: ManagedPeer) -> None:
    for number in range(30):
        peer.add(f"q{number}", messages=1)

    def slowly(request: Any, call: Any) -> Any:
        threading.Event().wait(0.1)
        return peer._answer_info(request, call)

    peer.info_instead = slowly
    done = posthouse("scan", at(peer), "--timeout", "1s", "--json")
    assert done.code == 1
    assert kinds(done.value)[-1] in ("time", "network")
    assert len(done.value["queues"]) < 30


def test_an_answer_that_never_ends_is_given_up(posthouse: Posthouse, peer: ManagedPeer) -> None:
    """Fragments come a byte at a time, without a pause: there is always something to read."""
    over = threading.Event()

    def drip(request: Any, call: Any) -> None:
        (connection,) = peer._open

        def run() -> None:
            with suppress(OSError):
                for flags in chain([1], repeat(0)):  # the first fragment, and never the last
                    head = f"050002{flags:02x}10000000ffff000001000000"
                    for octet in bytes.fromhex(head) + bytes(0xFFFF - 16):
                        connection.sendall(bytes([octet]))
                        if over.is_set():
                            return

        threading.Thread(target=run, daemon=True).start()

    peer.info_instead = drip
    stop = threading.Timer(30, over.set)
    stop.start()
    done = posthouse("scan", at(peer), "--timeout", "500ms", "--json")
    assert not over.is_set()
    over.set()
    stop.cancel()
    assert (done.code, kinds(done.value)) == (3, ["network"])
    assert "did not answer" in done.value["problems"][0]["cause"]


def test_names_that_are_none_are_listed_and_nothing_breaks(
    posthouse: Posthouse, peer: ManagedPeer
) -> None:
    peer.machine[2] = texts(["", HOSTILE, "x" * 5000, "winhost\\private$\\ok"])
    peer.machine[1] = texts(["", "DIRECT=", HOSTILE])
    peer.queues[r"private$\ok"] = 0xC00E0004
    for word in ("deadletter", "deadxact", "journal"):
        peer.queues[f"system$;{word}"] = 0xC00E0004
    done = posthouse("scan", at(peer), "--json")
    assert done.code == 1
    assert [queue["path"] for queue in done.value["queues"]] == ["winhost\\private$\\ok"]
    assert set(kinds(done.value)) == {"queue"}
    assert "\x1b" not in posthouse("scan", at(peer)).out


def test_more_queues_than_there_is_patience_for_are_counted() -> None:
    machine = MachineInventory("far", "2026-01-01T00:00:00Z", reached=True, left_out=5)
    assert not machine.complete
    assert QUEUES_MAX == 10_000
    assert "far: unknown version" in headline(machine)


def test_values_of_other_types_are_the_peers_fault(posthouse: Posthouse, peer: ManagedPeer) -> None:
    peer.info_instead = lambda request, call: PropertyValues(
        (Variant(Vt.UI4, 1),) * len(request.properties), 0
    )
    done = posthouse("scan", at(peer), "--json")
    assert (done.code, kinds(done.value)) == (3, ["protocol"])
    peer.info_instead = lambda request, call: PropertyValues((NULL,) * len(request.properties), 0)
    empty = posthouse("scan", at(peer), "--json")
    assert (empty.value["reached"], empty.value["queues"]) == (True, [])


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["host:0"],
        ["host:99999"],
        ["host:1" + "0" * 5000],
        [":135"],
        ["host", "--timeout", "0"],
        ["host", "--password-file", "x"],
        ["host", "--authentication", "privacy"],
        ["host", "--password", "secret"],
    ],
)
def test_wrong_usage_is_told_before_anything_is_asked(
    posthouse: Posthouse, words: list[str]
) -> None:
    assert posthouse("scan", *words).code == 2


def test_the_output_is_lines_of_json(posthouse: Posthouse, peer: ManagedPeer) -> None:
    done = posthouse("scan", at(peer), "--json")
    assert json.loads(done.out)["host"] == "127.0.0.1"


# -- one machine: posthouse queue list|show --machine


def test_the_queues_of_one_machine_are_listed(posthouse: Posthouse, peer: ManagedPeer) -> None:
    furnish(peer)
    done = posthouse("queue", "list", "--machine", at(peer), "--json")
    assert done.code == 0, done.err
    paths = [line.get("path") for line in done.lines]
    assert paths[:3] == [r"winhost\private$\orders", r"winhost\private$\idle", r"winhost\till"]
    assert done.lines[-1]["format_name"] == r"DIRECT=OS:far\private$\in"
    assert "3 queues" in posthouse("queue", "list", "--machine", at(peer)).out
    peer.queues[r"private$\orders"] = DENIED
    denied = posthouse("queue", "list", "--machine", at(peer), "--json")
    assert denied.code == 1
    assert denied.lines[-1]["problem"]["kind"] == "rights"
    peer.close()
    assert posthouse("queue", "list", "--machine", at(peer)).code == 3


def test_a_queue_of_one_machine_is_shown(posthouse: Posthouse, peer: ManagedPeer) -> None:
    place = struct.pack("<QII", 7 << 32 | 1, 12, 11)
    senders = vector(Vt.VARIANT, [texts(["n"]), vector(Vt.CLSID, [bytes(16)])])
    peer.add("orders", messages=3, p18=Variant(Vt.BLOB, place), p24=senders)
    done = posthouse("queue", "show", "orders", "--machine", at(peer), "--json")
    assert done.code == 0, done.err
    assert (done.value["message_count"], done.value["type"]) == (3, "PRIVATE")
    assert len(done.value) == 27
    assert done.value["eod_next_seq"] == {"sequence": 7 << 32 | 1, "number": 12, "previous": 11}
    assert done.value["eod_source_info"] == [["n"], ["00000000-0000-0000-0000-000000000000"]]
    told = posthouse("queue", "show", "orders", "--machine", at(peer)).out
    assert "7\\1 12" in told
    gone = posthouse("queue", "show", "gone", "--machine", at(peer))
    assert (gone.code, "has no queue" in gone.err) == (1, True)


@pytest.mark.parametrize("words", [["list"], ["show", "orders"]], ids=["list", "show"])
def test_a_user_needs_a_machine(posthouse: Posthouse, words: list[str]) -> None:
    done = posthouse("queue", *words, "--user", "me")
    assert done.code == 2
    assert "another machine" in done.err


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["list", "--machine", ""], "the name of the machine is empty"),
        (["show", "orders", "--machine", ""], "the name of the machine is empty"),
        (["list", "--machine", "winhost", "--match", "o*"], "are for queues here"),
        (["list", "--machine", "winhost", "--sort", "messages"], "are for queues here"),
        (["list", "--machine", "winhost", "--outgoing"], "are for queues here"),
    ],
)
def test_options_that_another_machine_does_not_have_are_refused(
    posthouse: Posthouse, words: list[str], cause: str
) -> None:
    done = posthouse("queue", *words)
    assert done.code == 2
    assert cause in done.err


def test_the_files_are_written_also_where_the_output_is_closed(
    peer: ManagedPeer, tmp_path: Path
) -> None:
    """As `scan --output FILE | head` does."""
    furnish(peer)
    files = [tmp_path / "inventory.json", tmp_path / "page.html"]
    words = ("scan", at(peer), "--output", str(files[0]), "--html", str(files[1]))
    run_into(closed_pipe(), *words)
    (machine,) = read_inventory(files[0].read_bytes()).machines
    assert (machine.name, machine.reached) == ("winhost", True)
    assert "winhost" in files[1].read_text()


def test_a_machine_that_refuses_is_not_said_to_be_away(posthouse: Posthouse) -> None:
    with read_serving(SecretServing) as server:
        done = posthouse("scan", f"127.0.0.1:{server.rpc_port}")
    assert done.code == 1
    assert done.out.startswith("127.0.0.1: refused.\n")
