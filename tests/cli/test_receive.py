"""`posthouse receive` and `posthouse peek`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Posthouse
from tests.client.serving import Serving
from tests.support.format_vectors import FOLDER

ORDERS = "./private$/orders"
LONG = "<order>" + "x" * 3000 + "</order>"
WHOLE = "ALPHA\\private$\\orders"


@pytest.fixture(autouse=True)
def orders(ph: Posthouse) -> None:
    ph("queue", "create", ORDERS)
    ph("queue", "purge", ORDERS)


def send(ph: Posthouse, *bodies: str) -> None:
    ph("send", ORDERS, "--lines", "-", stdin="\n".join(bodies).encode())


def texts(lines: list[dict[str, str]]) -> list[str]:
    return [line["body_text"] for line in lines]


def test_one_message_is_shown_whole_and_gone(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body", "<order/>", "--label", "order 1", "--app-specific", "7")
    said = ph("receive", ORDERS)
    assert said.code == 0
    for line in ("label           order 1", f"queue           {WHOLE}", "app specific    7"):
        assert f"{line}\n" in said.out
    assert "sender          S-1-5-32-544 (administrators)\n" in said.out
    assert said.out.endswith("\n<order/>\n")
    assert ph("receive", ORDERS).code == 4


def test_an_empty_queue_is_a_refusal_with_its_code(ph: Posthouse) -> None:
    for verb in ("receive", "peek"):
        refused = ph(verb, ORDERS)
        assert refused.code == 4
        assert refused.out == ""
        assert refused.err.startswith("MQ_ERROR_IO_TIMEOUT (0xC00E001B): ")


def test_so_many_as_were_asked_for(ph: Posthouse) -> None:
    send(ph, *map(str, range(250)))
    first = ph("receive", ORDERS, "--count", "120", "--json").lines
    assert texts(first) == [str(number) for number in range(120)]
    assert {line["queue"] for line in first} == {WHOLE}
    rest = ph("receive", ORDERS, "--count", "1000", "--json").lines
    assert texts(rest) == [str(number) for number in range(120, 250)]


@pytest.mark.parametrize("options", [("--count", "2"), ("-f", "--count", "2")])
def test_each_of_many_is_printed_whole(ph: Posthouse, options: tuple[str, ...]) -> None:
    send(ph, LONG, "second")
    first, second = ph("receive", ORDERS, *options).out.split("\n\n")
    assert first.endswith(f"\n{LONG}")
    assert second.startswith("id  ")
    assert second.endswith("\nsecond\n")


def test_bytes_of_many_are_printed_whole(ph: Posthouse) -> None:
    body = bytes(range(256)) * 20
    for _ in range(2):
        ph("send", ORDERS, "--body-file", "-", stdin=body)
    blocks = ph("receive", ORDERS, "--count", "2").out.split("\n\n")
    assert [bytes_of(block.partition(" bytes\n")[2]) for block in blocks] == [body, body]


def bytes_of(dump: str) -> bytes:
    """The bytes of rows of offset, hex and characters."""
    return b"".join(bytes.fromhex(row[10:57]) for row in dump.splitlines())


def test_a_queue_has_the_code_page_of_its_senders(ph: Posthouse, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes("Привет, мир".encode("cp1251"))
    for _ in range(2):
        ph("send", ORDERS, "--body-file", str(body), "--body-type", "30")
    assert "Ïðèâåò, ìèð" in ph("peek", ORDERS).out
    assert ph("queue", "set", ORDERS, "--code-page", "cp1251").code == 0
    assert "code page         1251\n" in ph("queue", "show", ORDERS).out
    shown = ph("peek", ORDERS, "--json").lines[0]
    assert (shown["decoded"]["value"], shown["code_page"]) == ("Привет, мир", "1251")
    assert ph("peek", ORDERS, "--format", "{code_page}: {decoded}").out == "1251: Привет, мир\n"
    assert ph("peek", ORDERS, "--count", "2").out.count("Привет, мир") == 2
    found = ph("message", "find", 'text ~ "привет"', "--json").lines
    assert [line["decoded"]["value"] for line in found] == ["Привет, мир"] * 2
    number = str(found[0]["lookup_id"])
    assert ph("message", "show", ORDERS, number).out.endswith("\nПривет, мир\n")
    assert ph("receive", ORDERS).out.endswith("\nПривет, мир\n")
    assert ph("queue", "set", ORDERS, "--code-page", "").code == 0
    assert "Ïðèâåò, ìèð" in ph("receive", ORDERS).out
    assert "1249" in ph("queue", "set", ORDERS, "--code-page", "1249").err


def test_bodies_are_shown_decoded(ph: Posthouse) -> None:
    body = (FOLDER / "nrbf-class.body").read_bytes()
    ph("send", ORDERS, "--body-file", "-", "--body-type", "768", stdin=body)
    (line,) = ph("peek", ORDERS, "--json").lines
    assert line["decoded"]["value"]["$type"] == "Acme.Shop.Order"
    (number,) = {line["lookup_id"]}
    table = ph("peek", ORDERS, "--count", "2").out
    assert '{ "$type": "Acme.Shop.Order", "Id": 17' in table
    for command in (
        ("peek", ORDERS),
        ("message", "show", ORDERS, str(number)),
        ("receive", ORDERS),
    ):
        out = ph(*command).out
        assert "nrbf, certain" in out
        assert '  "Customer": "Ada",' in out


def test_bytes_are_shown_where_they_are_asked_for(ph: Posthouse) -> None:
    send(ph, "<order/>")
    (line,) = ph("peek", ORDERS, "--json").lines
    show = ("message", "show", ORDERS, str(line["lookup_id"]))
    for command in (("peek", ORDERS), show):
        assert ph(*command, "--raw").out == "<order/>"
        row = ph(*command, "--hex").out.splitlines()[-1]
        assert row == f"00000000  {b'<order/>'.hex(' '):<47}  <order/>"
    assert ph("peek", ORDERS, "--hex", "--raw").code == 2
    assert ph("peek", ORDERS, "--hex", "--json").code == 2


def test_headers_of_a_bus_are_shown(ph: Posthouse) -> None:
    name = str(FOLDER / "nsb-error")
    ph("send", ORDERS, "--body-file", f"{name}.body", "--extension-file", f"{name}.extension")
    out = ph("peek", ORDERS).out
    assert "System.InvalidOperationException: Order 17" in out
    assert "Acme.Shop.Events.OrderPlaced" in out
    assert ph("peek", ORDERS, "--json").lines[0]["decoded"]["return_to"] == "Shop.Sales@SHOP01"


def test_a_large_body_is_printed_to_its_end(ph: Posthouse) -> None:
    body = "<a>" + "<b>x</b>" * 60_000 + "<last/></a>"
    ph("send", ORDERS, "--body-file", "-", stdin=body.encode())
    assert "<last/>" in ph("receive", ORDERS).out


def test_looking_at_many_is_a_table_with_a_head_line(ph: Posthouse) -> None:
    send(ph, "a", LONG)
    ph("send", ORDERS, "--body", "c", "--label", "order 3")
    head, *rows = ph("peek", ORDERS, "--count", "5").out.splitlines()
    names = ["lookup id", "arrived", "priority", "class", "bytes", "label", "body"]
    assert re.split(" {2,}", head.strip()) == names
    for name, cell in (("class", "normal"), ("label", "-"), ("body", "a")):
        assert rows[0][head.index(name) :].startswith(cell)
    assert rows[1].endswith("xxx...")
    assert rows[2].endswith("  order 3               c")
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 3


def test_peeking_takes_nothing(ph: Posthouse) -> None:
    send(ph, "1", "2", "3")
    assert texts(ph("peek", ORDERS, "--json").lines) == ["1"]
    assert texts(ph("peek", ORDERS, "--count", "9", "--json").lines) == ["1", "2", "3"]
    assert texts(ph("peek", ORDERS, "--count", "2", "--timeout", "0.01", "--json").lines) == [
        "1",
        "2",
    ]
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 3


def test_a_message_by_its_lookup_id(ph: Posthouse) -> None:
    send(ph, "1", "2", "3")
    wanted = ph("peek", ORDERS, "--count", "3", "--json").lines[1]
    lookup_id = str(wanted["lookup_id"])
    assert ph("peek", ORDERS, "--lookup-id", lookup_id, "--json").value == wanted
    assert ph("receive", ORDERS, "--lookup-id", lookup_id, "--json").value["id"] == wanted["id"]
    gone = ph("receive", ORDERS, "--lookup-id", lookup_id)
    assert gone.code == 4
    assert gone.err.startswith("MQ_ERROR_MESSAGE_NOT_FOUND (0xC00E0088): ")
    assert texts(ph("receive", ORDERS, "--count", "3", "--json").lines) == ["1", "3"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--lookup-id", "1", "--count", "2"],
        ["--lookup-id", "1", "--follow"],
        ["--lookup-id", "0"],
        ["--count", "0"],
        ["--timeout", "-1"],
        ["--timeout", "soon"],
    ],
)
def test_wrong_usage(ph: Posthouse, wrong: list[str]) -> None:
    assert ph("receive", ORDERS, *wrong).code == 2
    assert ph("peek", ORDERS, *wrong).code == 2


def when_somebody_waits(server: Serving, then: Callable[[], None]) -> threading.Thread:
    """Calls `then` once a reader waits at the queue."""

    def watch() -> None:
        while not server.ask(lambda m: sum(len(queue.waiters) for queue in m.queues.all())):
            pass
        then()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.parametrize("verb", ["receive", "peek"])
def test_following_waits_for_what_comes(ph: Posthouse, server: Serving, verb: str) -> None:
    import posthouse

    def deliver() -> None:
        with posthouse.connect(server.home) as qm:
            qm.queue(ORDERS).send_many([b"2", b"3"])

    send(ph, "1")
    sender = when_somebody_waits(server, deliver)
    said = ph(verb, ORDERS, "--follow", "--count", "3", "--json")
    sender.join()
    assert said.code == 0
    assert texts(said.lines) == ["1", "2", "3"]
    left = 0 if verb == "receive" else 3
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == left


def test_a_wait_with_an_end(ph: Posthouse, server: Serving) -> None:
    import posthouse

    def deliver() -> None:
        with posthouse.connect(server.home) as qm:
            qm.queue(ORDERS).send(b"late")

    sender = when_somebody_waits(server, deliver)
    assert texts(ph("receive", ORDERS, "--timeout", "60", "--json").lines) == ["late"]
    sender.join()
    assert ph("receive", ORDERS, "--timeout", "0.01").code == 4


def test_dead_letters_and_journals_are_queues_too(ph: Posthouse) -> None:
    ph("queue", "set", ORDERS, "--journal")
    ph("send", ORDERS, "--body", "kept")
    ph("receive", ORDERS)
    assert ph("peek", f"{ORDERS};journal", "--json").value["body_text"] == "kept"
    ph("queue", "set", ORDERS, "--no-journal")
    ph("send", ORDERS, "--body", "dead", "--dead-letter", "--time-to-be-received", "0")
    dead = ph("receive", "./system$;deadletter", "--timeout", "5", "--json").value
    assert (dead["body_text"], dead["class"]) == ("dead", "nack-receive-timeout")


def test_hostile_messages_cannot_steer_the_terminal(ph: Posthouse) -> None:
    hostile = "\x1b[2J\r\x9b1m\u202eevil[bold]\x7f"
    ph("send", ORDERS, "--body", hostile, "--label", hostile)
    for options in ([], ["--count", "2"], ["--json"]):
        said = ph("peek", ORDERS, *options).out
        assert not {"\x1b", "\r", "\x9b", "\u202e", "\x7f"} & set(said)
        assert "evil[bold]" in said


def test_lines_of_a_body_are_lines_for_people(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body", "one\ntwo")
    assert ph("receive", ORDERS).out.endswith("\none\ntwo\n")


def test_a_message_that_is_no_text_is_shown_as_bytes(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body-file", "-", stdin=b"\x00\x1b[2J")
    row = f"00000000  {'00 1b 5b 32 4a':<47}  ..[2J"
    assert ph("receive", ORDERS).out.endswith(f"\n{row}\n")
