"""`posthouse send`."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from posthouse.cli import main
from tests.cli.conftest import Posthouse

ORDERS, BOOKED = "./private$/orders", "./private$/booked"


@pytest.fixture(autouse=True)
def queues(ph: Posthouse) -> None:
    for name in (ORDERS, "./private$/answers"):
        ph("queue", "create", name)
    ph("queue", "create", BOOKED, "--transactional")
    for name in (ORDERS, BOOKED):
        ph("queue", "purge", name)


def received(ph: Posthouse, queue: str = ORDERS, count: int = 100) -> list[dict[str, Any]]:
    return ph("receive", queue, "--count", str(count), "--json").lines


def test_text_arrives_as_it_was_typed(ph: Posthouse) -> None:
    sent = ph("send", ORDERS, "--body", "grün €", "--label", "order 1")
    assert sent.code == 0
    (message,) = received(ph)
    assert message["id"] == sent.out.strip()
    assert (message["body_text"], message["label"]) == ("grün €", "order 1")
    assert base64.b64decode(message["body"]) == "grün €".encode()
    assert (message["priority"], message["delivery"]) == (3, "express")


def test_a_body_type_of_wide_text_sends_wide_text(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body", "wide", "--body-type", "8")
    (message,) = received(ph)
    assert base64.b64decode(message["body"]) == "wide".encode("utf-16-le")
    assert (message["body_text"], message["body_type"]) == ("wide", 8)


def test_every_option_reaches_the_message(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "extension").write_bytes(b"\x00\xff")
    (tmp_path / "body").write_bytes(b"\x01\x02")
    options = ["--label", "all of it", "--app-specific", "4294967295", "--priority", "7"]
    options += [
        "--recoverable",
        "--journal",
        "--dead-letter",
        "--admin-queue",
        "./private$/answers",
    ]
    options += ["--ack", "pos-arrival,neg-receive", "--response-queue", "./private$/answers"]
    options += ["--correlation", "ab" * 20, "--time-to-reach-queue", "60"]
    options += ["--time-to-be-received", "3600", "--body-type", "17"]
    options += ["--trace", "PUBLIC=00112233-4455-6677-8899-aabbccddeeff"]
    files = ["--body-file", str(tmp_path / "body"), "--extension-file", str(tmp_path / "extension")]
    assert ph("send", ORDERS, *options, *files).code == 0
    (message,) = received(ph)
    expected = {
        "label": "all of it",
        "app_specific": 4294967295,
        "priority": 7,
        "delivery": "recoverable",
        "journal": ["positive", "negative"],
        "admin_queue": "DIRECT=OS:ALPHA\\private$\\answers",
        "response_queue": "DIRECT=OS:ALPHA\\private$\\answers",
        "acknowledge": ["pos-arrival", "neg-receive"],
        "correlation_id": "ab" * 20,
        "time_to_be_received": 3600,
        "body_type": 17,
        "trace": "PUBLIC=00112233-4455-6677-8899-aabbccddeeff",
        "body": "AQI=",
        "extension": "AP8=",
    }
    message["journal"].sort(reverse=True)
    assert {name: message[name] for name in expected} == expected
    (answer,) = received(ph, "./private$/answers")
    assert answer["class"] == "ack-reach-queue"


def test_each_line_becomes_a_message(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\r\n\nlast \xff")
    sent = ph("send", ORDERS, "--lines", tmp_path / "lines", "--json")
    assert len(sent.lines) == 4
    messages = received(ph)
    assert [message["id"] for message in messages] == [line["id"] for line in sent.lines]
    bodies = [base64.b64decode(message["body"]) for message in messages]
    assert bodies == [b"one", b"two", b"", b"last \xff"]


def test_standard_input_is_a_file_too(ph: Posthouse) -> None:
    ph("send", ORDERS, "--body-file", "-", stdin=b"a\nb\n")
    ph("send", ORDERS, "--lines", "-", stdin=b"c\nd\n")
    assert [message["body_text"] for message in received(ph)] == ["a\nb\n", "c", "d"]


def test_what_is_piped_is_the_body(ph: Posthouse) -> None:
    body = b"a\nb\n\x00\xff\xfe"
    assert ph("send", ORDERS, "--label", "piped", stdin=body).code == 0
    (message,) = received(ph)
    assert (base64.b64decode(message["body"]), message["label"]) == (body, "piped")
    assert ph("send", ORDERS, "--count", "2", stdin=b"x").code == 0
    assert [message["body_text"] for message in received(ph)] == ["x", "x"]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_message_without_a_body_has_to_be_meant(ph: Posthouse, terminal: bool) -> None:
    refused = ph("send", ORDERS, terminal=terminal)
    assert (refused.code, refused.out) == (2, "")
    for option in ("--body TEXT", "--body-file FILE", "--lines FILE", "--empty"):
        assert option in refused.err
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 0
    assert ph("send", ORDERS, "--empty", stdin=b"not read", terminal=terminal).code == 0
    assert ph("send", ORDERS, "--body", "", stdin=b"not read", terminal=terminal).code == 0
    assert [message["body_size"] for message in received(ph)] == [0, 0]


def test_a_closed_input_is_no_body(ph: Posthouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # what Python makes of it
    assert main.run(["send", ORDERS]) == 2


def test_a_pipe_with_more_than_a_message_can_hold_is_refused(ph: Posthouse) -> None:
    refused = ph("send", ORDERS, stdin=bytes((4 << 20) + 1))
    assert refused.code == 2
    assert "standard input is larger than a message can be" in refused.err


def test_many_alike(ph: Posthouse) -> None:
    sent = ph("send", ORDERS, "--body", "x", "--count", "1500")
    assert len(set(sent.out.split())) == 1500
    assert len(received(ph, count=2000)) == 1500


def test_transactional_queues_take_transactional_messages(ph: Posthouse) -> None:
    refused = ph("send", "DIRECT=OS:.\\private$\\booked", "--body", "x")
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_TRANSACTION_USAGE (0xC00E0050): ")
    assert ph("send", BOOKED, "--body", "x", "--transactional").code == 0
    assert ph("send", BOOKED, "--lines", "-", "--transactional", stdin=b"1\n2\n3\n").code == 0
    messages = received(ph, BOOKED)
    assert [message["body_text"] for message in messages] == ["x", "1", "2", "3"]
    marks = [(m["transaction"]["first"], m["transaction"]["last"]) for m in messages]
    assert marks == [(True, True), (True, False), (False, False), (False, True)]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--body", "x", "--lines", "y"],
        ["--body", "x", "--empty"],
        ["--lines", "-", "--empty"],
        ["--lines", "-", "--count", "2"],
        ["--priority", "8"],
        ["--ack", "sometimes"],
        ["--count", "0"],
        ["--app-specific", "-1"],
        ["--body-file", "/no/such/file"],
        ["--body-type", "x"],
    ],
)
def test_wrong_usage_sends_nothing(ph: Posthouse, wrong: list[str]) -> None:
    assert ph("send", ORDERS, *wrong).code == 2
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ["--correlation", "abc"],
        ["--label", "x" * 300],
        ["--trace", "./private$/orders"],
        ["--admin-queue", "no queue"],
    ],
)
def test_what_no_message_can_have_is_refused(ph: Posthouse, wrong: list[str]) -> None:
    refused = ph("send", ORDERS, "--body", "x", *wrong)
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_")
    assert ph("queue", "show", ORDERS, "--json").value["messages"] == 0


def test_a_file_that_no_message_can_hold_is_refused(ph: Posthouse, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate((4 << 20) + 1)
    assert ph("send", ORDERS, "--body-file", tmp_path / "huge").code == 2
    assert ph("send", ORDERS, "--lines", tmp_path / "huge").code == 2


def test_a_refusal_in_the_middle_tells_what_was_sent(ph: Posthouse) -> None:
    ph("queue", "create", "./private$/tiny", "--quota", "1")
    refused = ph("send", "./private$/tiny", "--lines", "-", stdin=b"x" * 300 + b"\n" + b"y" * 3000)
    assert refused.code == 1
    assert "messages in front of the refused ones were sent\n" in refused.err


def test_no_queue_no_message(ph: Posthouse) -> None:
    refused = ph("send", "./private$/nowhere", "--body", "x")
    assert refused.code == 1
    assert refused.err.startswith("MQ_ERROR_QUEUE_NOT_FOUND (0xC00E0003): ")


def test_a_list_of_queues_gets_a_message_each(ph: Posthouse) -> None:
    names = "DIRECT=OS:ALPHA\\private$\\orders,DIRECT=OS:ALPHA\\private$\\answers"
    assert ph("send", names, "--body", "both").code == 0
    assert received(ph)[0]["body_text"] == "both"
    assert received(ph, "./private$/answers")[0]["body_text"] == "both"


@pytest.mark.parametrize(
    ("options", "body", "body_type"),
    [
        (("xml", "--type", "int"), b'<?xml version="1.0"?>\r\n<int>42</int>', 0),
        (("xml",), b'<?xml version="1.0"?>\r\n<string>42</string>', 0),
        (("activex", "--type", "int"), b"\x2a\0\0\0", 3),
        (("activex",), "42".encode("utf-16-le"), 31),
        (("json",), b"42", 0),
        (("text",), b"42", 0),
        (("raw",), b"42", 0),
    ],
)
def test_a_formatter_writes_the_body_as_dot_net_does(
    ph: Posthouse, options: tuple[str, ...], body: bytes, body_type: int
) -> None:
    assert ph("send", ORDERS, "--body", "42", "--formatter", *options).code == 0
    (message,) = received(ph)
    assert (base64.b64decode(message["body"]), message["body_type"]) == (body, body_type)


def test_a_class_is_written_from_json(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "order").write_text(
        '{"@No": 7, "Tag": ["a", "b"], "Paid": null, "To": {"City": "Ö"}}'
    )
    how = ("--formatter", "xml", "--root", "Order", "--namespace", "urn:a")
    assert ph("send", ORDERS, "--body-file", str(tmp_path / "order"), *how).code == 0
    (message,) = received(ph)
    xsi, xsd = "http://www.w3.org/2001/XMLSchema-instance", "http://www.w3.org/2001/XMLSchema"
    assert base64.b64decode(message["body"]).decode().split("\r\n") == [
        '<?xml version="1.0"?>',
        f'<Order xmlns:xsi="{xsi}" xmlns:xsd="{xsd}" xmlns="urn:a" No="7">',
        "  <Tag>a</Tag>",
        "  <Tag>b</Tag>",
        '  <Paid xsi:nil="true" />',
        "  <To>",
        "    <City>Ö</City>",
        "  </To>",
        "</Order>",
    ]


def test_numbers_of_json_keep_their_digits(ph: Posthouse) -> None:
    body = '{"Price": 12.50, "Large": 123456789012345678901234567890.1, "Id": 7}'
    assert ph("send", ORDERS, "--body", body, "--formatter", "json").code == 0
    assert ph("send", ORDERS, "--body", body, "--formatter", "xml", "--root", "Order").code == 0
    assert ph("receive", ORDERS, "--raw").out == body
    written = ph("receive", ORDERS, "--raw").out
    for text in ("<Price>12.50<", "<Large>123456789012345678901234567890.1<", "<Id>7<"):
        assert text in written


def test_each_line_is_written_by_the_formatter(ph: Posthouse, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("1\n2\n")
    ph(
        "send",
        ORDERS,
        "--lines",
        str(tmp_path / "lines"),
        "--formatter",
        "activex",
        "--type",
        "int",
    )
    bodies = [(base64.b64decode(one["body"]), one["body_type"]) for one in received(ph)]
    assert bodies == [(b"\x01\0\0\0", 3), (b"\x02\0\0\0", 3)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--formatter", "yaml"), "not a formatter"),
        (("--formatter", "xml", "--type", "number"), "not a type"),
        (("--formatter", "activex", "--type", "TimeSpan"), "not a type"),
        (("--formatter", "xml", "--type", "int"), "'x' is not a value of the type int"),
        (("--formatter", "json"), "not JSON"),
        (("--formatter", "json", "--body", "NaN"), "not JSON"),
        (("--formatter", "xml", "--type", "double", "--body", "1_0"), "of the type double"),
        (("--formatter", "xml", "--body-type", "8"), "leave --body-type out"),
        (("--type", "int"), "--type needs"),
        (("--root", "A"), "--root needs"),
        (("--formatter", "xml", "--namespace", "urn:a"), "--namespace needs"),
    ],
)
def test_a_formatter_that_does_not_fit_sends_nothing(
    ph: Posthouse, options: tuple[str, ...], reason: str
) -> None:
    refused = ph("send", ORDERS, "--body", "x", *options)
    assert (refused.code, reason in refused.err) == (2, True)
    assert received(ph) == []


def test_a_trace_context_travels_with_the_message(ph: Posthouse) -> None:
    """It is in the JSON and in what people read; what is not one is refused."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = ph("send", ORDERS, "--empty", "--traceparent", parent, "--tracestate", "a=1")
    assert sent.code == 0
    (seen,) = ph("peek", ORDERS, "--json").lines
    assert (seen["traceparent"], seen["tracestate"]) == (parent, "a=1")
    shown = ph("message", "show", ORDERS, str(seen["lookup_id"])).out
    assert parent in next(line for line in shown.splitlines() if "trace context" in line)
    refused = ph("send", ORDERS, "--empty", "--traceparent", parent.upper())
    assert refused.code != 0
    assert "looks like" in refused.err
    assert len(received(ph)) == 1
