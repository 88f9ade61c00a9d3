"""Commands that read a queue of another computer."""

from __future__ import annotations

import getpass
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posthouse.model.guids import format_guid
from posthouse.protocols.remote_read.stubs import Opnum
from tests.cli.conftest import OUTPUT_MODES, Posthouse, Result, full_device, run_into
from tests.client.read_peer import Peer
from tests.client.read_serving import PASSWORD, USER, ReadServing, read_serving
from tests.client.serving import Serving

ORDERS = "./private$/orders"
FAR = r"DIRECT=OS:localhost\private$\orders"
PATH = "localhost/private$/orders"


@pytest.fixture(scope="module")
def other() -> Iterator[ReadServing]:
    with read_serving() as server:
        yield server


class Reading:
    """Command lines about the other computer; `here` is its own queue manager."""

    def __init__(self, other: ReadServing, run: Posthouse) -> None:
        self.port = str(other.rpc_port)
        self._home = other.home
        self._run = run

    def here(self, *words: str) -> Result:
        return self._run(*words, "--home", self._home)

    def __call__(self, *words: str, password: str = PASSWORD, user: str = USER) -> Result:
        login = ("--user", user, "--rpc-port", self.port)
        return self._run(*words, *login, stdin=f"{password}\n".encode())

    def anonymous(self, *words: str) -> Result:
        return self._run(*words, "--rpc-port", self.port)

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.here("send", ORDERS, "--body", body)

    def bodies(self) -> list[str]:
        lines = self.here("peek", ORDERS, "--count", "100", "--json").lines
        return [line["body_text"] for line in lines]


@pytest.fixture
def ph(other: ReadServing, posthouse: Posthouse) -> Reading:
    reading = Reading(other, posthouse)
    reading.here("queue", "create", ORDERS)
    reading.here("queue", "grant", ORDERS, USER, "full")
    reading.here("queue", "purge", ORDERS)
    return reading


def texts(result: Result) -> list[str]:
    return [line["body_text"] for line in result.lines]


@pytest.mark.parametrize("name", [FAR, PATH])
def test_a_message_of_another_computer_is_received(ph: Reading, name: str) -> None:
    ph.send("<order/>")
    said = ph("receive", name)
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("\n<order/>\n")
    empty = ph("receive", name)
    assert empty.code == 4
    assert empty.err.startswith("MQ_ERROR_IO_TIMEOUT (0xC00E001B): ")


def test_so_many_as_were_asked_for(ph: Reading) -> None:
    ph.send(*"abcdef")
    assert texts(ph("receive", FAR, "--count", "4", "--json")) == list("abcd")
    assert texts(ph("receive", FAR, "--count", "4", "--timeout", "0.05", "--json")) == ["e", "f"]


LONG = "<order>" + "x" * 3000 + "</order>"


@pytest.mark.parametrize("options", [("--count", "2"), ("-f", "--count", "2")])
def test_each_of_many_is_printed_whole(ph: Reading, options: tuple[str, ...]) -> None:
    ph.send(LONG, "second")
    first, second = ph("receive", FAR, *options).out.split("\n\n")
    assert first.endswith(f"\n{LONG}")
    assert second.endswith("\nsecond\n")
    assert ph.bodies() == []


def test_messages_of_another_computer_are_written_in_every_way(ph: Reading, tmp_path: Path) -> None:
    ph.send("a", "b", "c", LONG, "e")
    assert ph("receive", FAR, "--raw", "--count", "2").out == "a\nb\n"
    assert ph("receive", FAR, "--format", "{body_text};{body_size}").out == "c;1\n"
    written = Path(ph("receive", FAR, "--out", str(tmp_path)).out.strip())
    assert written.read_text() == LONG
    head, row = ph("peek", FAR, "--count", "9").out.splitlines()
    assert head.split()[-1] == "body"
    assert row.split()[-1] == "e"


@pytest.mark.parametrize(
    ("choice", "mode"),
    [*(("many", mode) for mode in OUTPUT_MODES), ("one", []), ("following", []), ("lookup", [])],
)
def test_what_cannot_be_printed_stays_in_the_other_queue(
    ph: Reading, mode: list[str], choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ph.send("a", "b", "c")
    lookup_id = str(ph.here("peek", ORDERS, "--json").value["lookup_id"])
    options = {
        "one": [],
        "many": ["--count", "3"],
        "following": ["--follow"],
        "lookup": ["--lookup-id", lookup_id],
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PASSWORD}\n"))
    login = ["--user", USER, "--rpc-port", ph.port]
    assert run_into(full_device(), "receive", FAR, *options[choice], *login, *mode) == 1
    assert ph.bodies() == ["a", "b", "c"]


def test_messages_are_looked_at(ph: Reading) -> None:
    ph.send(*"abc")
    seen = ph("peek", FAR, "--count", "9", "--json")
    assert texts(seen) == list("abc")
    assert texts(ph("peek", FAR, "--count", "9", "--timeout", "0.05", "--json")) == list("abc")
    second = str(seen.lines[1]["lookup_id"])
    assert ph("peek", FAR, "--lookup-id", second, "--json").value["body_text"] == "b"
    assert ph("receive", FAR, "--lookup-id", second, "--json").value["body_text"] == "b"
    assert ph.bodies() == ["a", "c"]


def test_a_queue_is_purged(ph: Reading) -> None:
    ph.send(*"abc")
    assert ph("queue", "purge", FAR, "--dry-run").out.endswith("with 3 messages.\n")
    assert ph.bodies() == ["a", "b", "c"]
    assert ph("queue", "purge", FAR, "--json").value == {"messages": 3, "dry_run": False}
    assert ph.bodies() == []


@pytest.mark.parametrize(
    ("choice", "stay"),
    [
        ((), []),
        (("--where", 'body_text = "b"'), ["a", "c"]),
        (("--dry-run",), ["a", "b", "c"]),
    ],
)
def test_messages_are_moved_to_a_subqueue(
    ph: Reading, choice: tuple[str, ...], stay: list[str]
) -> None:
    ph.send(*"abc")
    moved = ph("message", "move", FAR, f"{FAR};poison", *choice, "--json")
    assert moved.code == 0
    assert moved.value["done"] == 3 - len(stay)
    assert ph.bodies() == stay
    ph("queue", "purge", f"{FAR};poison")


def test_what_is_gone_or_refused_is_told_when_it_is_moved(ph: Reading) -> None:
    ph.send("a")
    gone = ph("message", "move", FAR, f"{FAR};poison", "--lookup-id", "1", "--json")
    assert (gone.code, gone.value["gone"]) == (4, 1)
    ph.here("queue", "create", "./private$/apart")
    ph.here("queue", "grant", "./private$/apart", USER, "full")
    refused = ph("message", "move", FAR, r"DIRECT=OS:localhost\private$\apart", "--json")
    assert refused.code == 1
    assert refused.value["refused"] == 1
    assert ph.bodies() == ["a"]


def test_a_wrong_password_is_a_refusal(ph: Reading) -> None:
    refused = ph("receive", FAR, password="wrong", user="mallory")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("MQ_ERROR_ACCESS_DENIED (0xC00E0025): ")
    assert "mallory" in refused.err
    assert "wrong" not in refused.err


def test_nobody_in_particular_reads_where_he_may(ph: Reading) -> None:
    ph.send("open")
    assert ph.anonymous("receive", FAR).code == 1
    ph.here("queue", "grant", ORDERS, "anonymous", "full")
    assert ph.anonymous("receive", FAR, "--authentication", "none").code == 0
    ph.here("queue", "revoke", ORDERS, "anonymous")


def test_nobody_there_is_not_reachable(posthouse: Posthouse) -> None:
    said = posthouse("peek", FAR, "--rpc-port", "1")
    assert said.code == 3
    assert "--rpc-port" in said.err


@pytest.mark.parametrize(
    "words",
    [
        ("receive", ORDERS, "--user", "a"),
        ("receive", "DL=6f9619ff-8b86-d011-b42d-00c04fc964ff", "--user", "a"),
        ("peek", FAR, "--authentication", "privacy"),
        ("peek", FAR, "--authentication", "secret"),
        ("peek", FAR, "--rpc-port", "0"),
        ("message", "move", FAR, FAR, "--rpc-port", "1", "--where", "x", "--lookup-id", "1"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(posthouse: Posthouse, words: tuple[str, ...]) -> None:
    assert posthouse(*words, stdin=b"password\n").code == 2


def test_a_home_that_is_named_gives_the_reader_its_identity(
    posthouse: Posthouse, server: Serving
) -> None:
    guid = posthouse("status", "--home", server.home, "--json").value["guid"]
    with Peer(b"one!", b"two!") as peer:
        words = ("receive", FAR, "--rpc-port", str(peer.port), "--json")
        assert texts(posthouse(*words, "--home", server.home)) == ["one!"]
        assert texts(posthouse(*words)) == ["two!"]
        named, unnamed = (format_guid(one.client_id) for one in peer.asked(Opnum.OPEN_QUEUE))
    assert named == guid
    assert unnamed != guid


def test_a_home_that_is_named_has_to_be_served(posthouse: Posthouse, tmp_path: Path) -> None:
    said = posthouse("receive", FAR, "--user", "a", "--home", tmp_path / "x", stdin=b"p\n")
    assert said.code == 3


def test_a_password_has_its_length(posthouse: Posthouse) -> None:
    assert posthouse("peek", FAR, "--user", "a", stdin=b"x" * 300).code == 2


def test_a_person_is_asked_for_the_password(
    ph: Reading, posthouse: Posthouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(words: str) -> str:
        asked.append(words)
        return PASSWORD

    monkeypatch.setattr(getpass, "getpass", ask)
    ph.send("x")
    words = ("receive", FAR, "--user", USER, "--rpc-port", ph.port)
    assert posthouse(*words, terminal=True).code == 0
    assert asked == ["Password: "]


def test_doubt_is_told(posthouse: Posthouse) -> None:
    with Peer(b"one!", b"two!") as peer:
        peer.instead[9] = lambda request, call: 0xC00E0007
        said = posthouse("receive", FAR, "--rpc-port", str(peer.port), "--count", "2", "--json")
        assert len(said.lines) == 2
        assert said.code == 3
        assert "before the messages were ended" in said.err
        said = posthouse("receive", FAR, "--rpc-port", str(peer.port), "--count", "9", "--json")
    assert "2 messages in doubt" in said.err
