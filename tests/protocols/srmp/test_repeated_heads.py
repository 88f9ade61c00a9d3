"""A head that a sender repeats is remembered; requests are read as if each had come alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.srmp.http_head import REMEMBERED_SIZE_MAX
from posthouse.protocols.srmp.http_reader import HttpRequest, RequestReader
from posthouse.protocols.srmp.settings import SrmpSettings

SETTINGS = SrmpSettings(head_size_max=4096, fields_max=8, body_size_max=4096)
START = b"POST /msmq/private$/q HTTP/1.1\r\nHost: b\r\n"
REQUESTS = [
    START + b"Content-Length: 5\r\n\r\nhello",
    START + b"Content-Length: 5\r\n\r\nother",
    START + b"Content-Length: 0\r\n\r\n",
    START + b"Content-Length: 16\r\n\r\n\r\n\r\nhello, there",
    START + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    START + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    START + b"X-Filler: %b\r\nContent-Length: 5\r\n\r\nhello" % (b"x" * REMEMBERED_SIZE_MAX),
    b"\r\n" + START + b"Content-Length: 5\r\n\r\nhello",
    b"GET /msmq/ HTTP/1.1\r\nHost: b\r\n\r\n",
]
BAD = [
    b"\r\n\r\n" + REQUESTS[0],
    START + b"Content-Length: 4097\r\n\r\n",
    START + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    START + b"Content-Length: 5\n\r\n\r\nhello",
    START + b"\r\n",
]


def alone(data: bytes) -> list[HttpRequest]:
    return RequestReader(SETTINGS).feed(data)


@given(
    st.lists(st.sampled_from(REQUESTS[:2] * 4 + REQUESTS), max_size=12),
    st.sampled_from([b"", *BAD]),
    st.integers(1, 400),
)
def test_requests_in_any_order_are_read_as_each_alone(
    sent: list[bytes], bad: bytes, piece: int
) -> None:
    reader, found = RequestReader(SETTINGS), []
    data = b"".join([*sent, bad])
    for at in range(0, len(data), piece):
        found += reader.feed(data[at : at + piece])
    assert found == [request for each in sent for request in alone(each)]
    fresh = RequestReader(SETTINGS)
    assert fresh.feed(bad) == []
    assert str(reader.error) == str(fresh.error)


def test_the_same_head_is_the_same_object() -> None:
    reader = RequestReader(SETTINGS)
    (first,), (second,) = reader.feed(REQUESTS[0]), reader.feed(REQUESTS[1])
    assert second.head is first.head
    assert (first.body, second.body) == (b"hello", b"other")


def test_a_long_head_is_not_kept() -> None:
    reader = RequestReader(SETTINGS)
    reader.feed(REQUESTS[6])
    assert reader._last is None
