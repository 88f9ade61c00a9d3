"""The strict reader of HTTP: what it takes, what it refuses, in whatever pieces it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.srmp.http_reader import (
    CHUNK_SIZE_MIN,
    CHUNKS_FREE,
    HttpRequest,
    RequestReader,
    ResponseReader,
)
from posthouse.protocols.srmp.http_writer import request, response
from posthouse.protocols.srmp.settings import SrmpSettings

SETTINGS = SrmpSettings(head_size_max=1024, fields_max=8, body_size_max=4096, answer_size_max=1024)
HEAD = "POST /msmq/private$/q HTTP/1.1\r\nHost: b\r\nContent-Type: text/xml\r\n"
GOOD = HEAD.encode() + b"Content-Length: 5\r\n\r\nhello"


def read(data: bytes, piece: int = 0) -> tuple[list[HttpRequest], int]:
    """The requests of a stream, and the status of what was wrong with it."""
    reader, found = RequestReader(SETTINGS), []
    for at in range(0, len(data), piece or len(data) or 1):
        found += reader.feed(data[at : at + (piece or len(data))])
    return found, 0 if reader.error is None else reader.error.status


def refused(*lines: str, first: str = "POST /msmq/q HTTP/1.1") -> int:
    return read("\r\n".join([first, *lines, "", ""]).encode("latin-1") + b"hello")[1]


@pytest.mark.spec("MC-MQSRM 2.1.1/1")
def test_a_post_is_read_whole_and_in_any_pieces() -> None:
    for piece in (0, 1, 2, 3, 7, 50):
        ((head, body),), fault = read(GOOD, piece)
        assert (head.method, head.path, body, fault) == (b"POST", "/msmq/private$/q", b"hello", 0)
        assert head.content_type == "text/xml"
        assert head.raw == GOOD[:-5]
        assert head.keep
        assert not head.expects


def test_requests_follow_each_other_in_one_piece() -> None:
    found, fault = read(GOOD * 3 + GOOD[:20])
    assert [each.body for each in found] == [b"hello"] * 3
    assert not fault


def test_an_empty_line_between_requests_is_passed_over() -> None:
    for piece in (0, 1):
        found, fault = read(GOOD + b"\r\n" + GOOD, piece)
        assert (len(found), fault) == (2, 0)
        assert read(GOOD + b"\r\n\r\n" + GOOD, piece)[1] == 400


def test_escaped_names_and_whole_urls_are_understood() -> None:
    for target in ("/msmq/private%24/%C3%A4", "http://b:80/msmq/private$/%c3%a4?x=1"):
        (found,), _ = read(GOOD.replace(b"/msmq/private$/q", target.encode()))
        assert found.head.path == "/msmq/private$/ä"


@pytest.mark.parametrize(
    "target", ["/msmq/%", "/msmq/%zz", "/msmq/%ff", "msmq", "ftp://b/q", "//["]
)
def test_a_target_that_means_nothing_is_refused(target: str) -> None:
    found, fault = read(GOOD.replace(b"/msmq/private$/q", target.encode()))
    assert fault == 400 or found[0].head.path.startswith("//")


@pytest.mark.spec("MC-MQSRM 2.1.1/7")
@pytest.mark.parametrize(
    "lines",
    [
        ("Host: b", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Host: b", "Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Host: b", "Content-Length: 5", "Content-Length: 5"),
        ("Host: b", "Content-Length: 5", "Content-Length: 6"),
        ("Host: b", "Content-Length: 5, 5"),
        ("Host: b", "Content-Length: +5"),
        ("Host: b", "Content-Length: -5"),
        ("Host: b", "Content-Length: 0x5"),
        ("Host: b", "Content-Length: "),
        ("Host: b", "Content-Length: 5 5"),
        ("Host: b", "Content-Length : 5"),
        ("Host: b", "Content-Length: 5", " folded: yes"),
        ("Host: b", "X: y", "\tfolded", "Content-Length: 5"),
        ("Host: b\nContent-Length: 5",),
        ("Host: b\rX: y", "Content-Length: 5"),
        ("Host: b", "X: \x00", "Content-Length: 5"),
        ("Host: b", "no colon", "Content-Length: 5"),
        ("Host: b", ": nameless", "Content-Length: 5"),
        ("Host: b", "Host: c", "Content-Length: 5"),
        ("Content-Length: 5",),
        ("Host: b", "Transfer-Encoding: gzip, chunked"),
        ("Host: b", "Transfer-Encoding: chunked, chunked"),
        ("Host: b", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Host: b", "Transfer-Encoding: identity"),
        ("Host: b", "Transfer-Encoding: \x0bchunked"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(lines: tuple[str, ...]) -> None:
    assert refused(*lines) == 400


@pytest.mark.spec("MC-MQSRM 2.1.1/7")
def test_line_feeds_alone_are_refused_before_the_head_ends() -> None:
    assert read(b"POST /msmq/q HTTP/1.1\nHost: b\n")[1] == 400
    assert read(GOOD.replace(b"\r\n", b"\n"))[1] == 400


def test_chunks_of_http_1_0_are_refused() -> None:
    assert refused("Transfer-Encoding: chunked", first="POST /msmq/q HTTP/1.0") == 400


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("POST /msmq/q HTTP/2.0", 505),
        ("POST /msmq/q", 400),
        ("POST  /msmq/q HTTP/1.1", 400),
        ("POST /msmq/q q HTTP/1.1", 400),
        ("P@ST /msmq/q HTTP/1.1", 400),
        ("PUT /msmq/q HTTP/1.1", 405),
    ],
)
def test_a_wrong_first_line_is_refused(first: str, status: int) -> None:
    assert refused("Host: b", "Content-Length: 5", first=first) == status


def test_what_cannot_be_done_is_refused_by_its_status() -> None:
    assert refused("Host: b") == 411
    assert refused("Host: b", "Content-Length: 5", "Expect: wonders") == 417
    assert refused("Host: b", "Content-Length: 5", "Content-Encoding: gzip") == 415


def test_limits_hold() -> None:
    assert refused("Host: b", "Content-Length: 4097") == 400
    assert refused("Host: b", *(f"X{i}: y" for i in range(9)), "Content-Length: 5") == 431
    assert refused("Host: b", "X: " + "y" * 1024, "Content-Length: 5") == 431
    assert read(b"POST /" + b"y" * 1030, 1)[1] == 431
    chunked = HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n"
    assert read(chunked + b"fff\r\n" + b"y" * 4095 + b"\r\n2\r\n")[1] == 400
    assert read(chunked + b"f" * 300)[1] == 400
    assert read(chunked + b"0\r\n" + b"X: y\r\n" * 9)[1] == 400


def test_nothing_is_read_behind_an_error() -> None:
    reader = RequestReader(SETTINGS)
    assert reader.feed(b"nonsense\r\n\r\n" + GOOD) == []
    assert reader.feed(GOOD) == []
    assert reader.held == 0


def test_what_was_good_before_an_error_counts() -> None:
    found, fault = read(GOOD + b"nonsense\r\n\r\n")
    assert (len(found), fault) == (1, 400)


@pytest.mark.parametrize("piece", [0, 1, 3])
def test_chunks_make_a_body(piece: int) -> None:
    chunks = b"2\r\nhe\r\n3;note=x\r\nllo\r\n0\r\nTrailer: t\r\n\r\n"
    data = HEAD.encode() + b"Transfer-Encoding: Chunked\r\n\r\n" + chunks
    found, fault = read(data + GOOD, piece)
    assert ([each.body for each in found], fault) == ([b"hello", b"hello"], 0)


@pytest.mark.parametrize("size", [1, 16, CHUNK_SIZE_MIN - 1])
def test_a_body_of_very_many_tiny_chunks_is_refused(size: int) -> None:
    reader = RequestReader(SrmpSettings())
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    assert reader.feed(HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n") == []
    assert reader.feed(chunk * CHUNKS_FREE) == []
    assert reader.error is None
    assert reader.feed(chunk * CHUNKS_FREE * CHUNK_SIZE_MIN) == []
    assert reader.error is not None
    assert reader.error.status == 400
    assert reader.held == 0


def test_many_chunks_of_some_size_make_a_body() -> None:
    size, count = CHUNK_SIZE_MIN, 4 * CHUNKS_FREE
    chunk = b"%x\r\n%b\r\n" % (size, b"x" * size)
    head = HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n"
    (found,) = RequestReader(SrmpSettings()).feed(head + chunk * count + b"0\r\n\r\n")
    assert found.body == b"x" * size * count


@pytest.mark.parametrize(
    "chunks",
    [
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nno colon\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX: y\n\r\n",
        b"5;\rx\r\nhello\r\n0\r\n\r\n",
        b"1000000000000000000\r\nhello",
    ],
)
def test_broken_chunks_are_refused(chunks: bytes) -> None:
    for piece in (0, 1):
        data = HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
        assert read(data, piece) == ([], 400)


def test_an_expectation_is_told_until_the_body_comes() -> None:
    reader = RequestReader(SETTINGS)
    head, body = GOOD[:-5].replace(b"\r\n\r\n", b"\r\nExpect: 100-Continue\r\n\r\n"), b"hello"
    assert reader.feed(head) == []
    assert reader.expects
    assert reader.feed(body[:2]) == []
    assert not reader.expects
    assert reader.held == 2
    assert [each.body for each in reader.feed(body[2:])] == [b"hello"]
    assert reader.held == 0


def test_connections_stay_as_each_version_has_it() -> None:
    def keeps(version: str, connection: str) -> bool:
        text = f"POST /msmq/q HTTP/{version}\r\nHost: b\r\nContent-Length: 0\r\n{connection}\r\n"
        (found,), _ = read(text.encode())
        return found.head.keep

    assert keeps("1.1", "")
    assert not keeps("1.1", "Connection: foo, Close\r\n")
    assert not keeps("1.0", "")
    assert keeps("1.0", "Connection: Keep-Alive\r\n")


def test_http_1_0_needs_no_host() -> None:
    (found,), fault = read(b"POST /msmq/q HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
    assert found.head.is_old
    assert not fault


@given(st.binary(max_size=300), st.integers(1, 40))
def test_any_bytes_give_requests_or_one_error(data: bytes, piece: int) -> None:
    for each in (data, GOOD + data, GOOD[:40] + data + GOOD[40:]):
        (found, fault), (expected, other) = read(each, piece), read(each)
        assert found == expected
        assert bool(fault) == bool(other)


# -- responses


def answers(data: bytes, piece: int = 0) -> tuple[list[tuple[int, bool]], bool]:
    reader, found = ResponseReader(SETTINGS), []
    for at in range(0, len(data), piece or len(data) or 1):
        found += reader.feed(data[at : at + (piece or len(data))])
    return [(each.status, each.keep) for each in found], reader.error is not None


@pytest.mark.parametrize("piece", [0, 1, 5])
def test_responses_follow_each_other(piece: int) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + response(200) + response(400, "no") + chunked
    data += b"HTTP/1.1 204\r\n\r\n" + response(200)
    expected = [(200, True), (400, True), (200, True), (204, True), (200, True)]
    assert answers(data, piece) == (expected, False)


@pytest.mark.spec("MC-MQSRM 2.1.1/9")
def test_an_endless_body_is_not_read() -> None:
    reader = ResponseReader(SETTINGS)
    (head,) = reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 5000)
    assert (head.status, head.keep, reader.held) == (200, False, 0)
    reader = ResponseReader(SETTINGS)
    (head,) = reader.feed(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 5000)
    assert (head.status, head.keep, reader.held) == (200, False, 0)


@pytest.mark.spec("MC-MQSRM 2.1.1/9")
def test_an_endless_head_and_endless_chunks_are_errors() -> None:
    assert answers(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300) == ([], True)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert answers(chunked + b"3ff\r\n" + b"x" * 1023 + b"\r\n3ff\r\n") == ([(200, True)], True)
    assert answers(b"HTTP/1.1 100 Continue\r\n\r\n" * 9) == ([], True)


@pytest.mark.parametrize(
    "data", [b"220 smtp\r\n\r\n", b"HTTP/1.1 999 OK\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"\n\n"]
)
def test_garbage_is_no_response(data: bytes) -> None:
    assert answers(data) == ([], True)


def test_a_closed_connection_is_told() -> None:
    assert answers(response(200, keep=False) + response(200)) == ([(200, False)], False)
    assert answers(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n") == ([(200, False)], False)


@given(st.binary(max_size=300), st.integers(1, 40))
def test_any_bytes_give_responses_or_one_error(data: bytes, piece: int) -> None:
    damaged = response(200) + data
    assert answers(damaged, piece)[0][:1] == answers(damaged)[0][:1] == [(200, True)]


# -- what we write


def test_what_we_send_is_read_again() -> None:
    fields = [("Content-Type", "text/xml"), ("SOAPAction", '"MSMQMessage"')]
    parts = request("/msmq/private$/q", "b:8080", fields, b"payload")
    ((head, body),), fault = read(b"".join(parts))
    assert (head.path, head.content_type, body, fault) == (
        "/msmq/private$/q",
        "text/xml",
        b"payload",
        0,
    )


@pytest.mark.spec("MC-MQSRM 2.1.1/6")
def test_a_405_says_what_is_allowed() -> None:
    assert b"\r\nAllow: POST\r\n" in response(405, "no")


def test_reasons_are_one_line_of_text() -> None:
    text = response(400, "a\r\nb: c\x00" + "y" * 1000)
    head, _, body = text.partition(b"\r\n\r\n")
    assert body.startswith(b"a b: c")
    assert len(body) < 600
    assert f"Content-Length: {len(body)}".encode() in head


def test_a_peer_of_http_1_0_is_told_that_the_connection_stays() -> None:
    assert b"Connection: keep-alive" in response(200, is_old=True)
    assert b"Connection: close" in response(200, keep=False)


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        (b"Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        (b"Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
        (b"yesterday", 0),
        (b"", 0),
        (b"Sun, 99 Nov 99999999999999999999 08:49:37 GMT", 0),
        (b"\xff", 0),
    ],
)
def test_a_date_is_a_second_or_nothing(date: bytes, expected: int) -> None:
    reader = ResponseReader(SrmpSettings())
    (head,) = reader.feed(b"HTTP/1.1 200 OK\r\nDate: " + date + b"\r\nContent-Length: 0\r\n\r\n")
    assert (head.status, head.date) == (200, expected)


@given(st.binary(max_size=40))
def test_any_date_is_a_second_or_nothing(date: bytes) -> None:
    reader = ResponseReader(SrmpSettings())
    for head in reader.feed(b"HTTP/1.1 200 OK\r\nDate: " + date + b"\r\nContent-Length: 0\r\n\r\n"):
        assert head.date >= 0
