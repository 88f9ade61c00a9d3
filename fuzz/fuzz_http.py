"""Fuzz target: any bytes of an HTTP connection are requests or responses, or refused once.

However they arrive, the readers see the same. It runs with its siblings by `make fuzz`; alone,
guided by coverage, by `python -m fuzz.guided http -max_total_time=600` (see there).
"""

import random
from pathlib import Path

from posthouse.protocols.srmp.http_head import ResponseHead
from posthouse.protocols.srmp.http_reader import HttpRequest, RequestReader, ResponseReader
from posthouse.protocols.srmp.http_writer import request, response
from posthouse.protocols.srmp.settings import SrmpSettings

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "srmp"
SETTINGS = SrmpSettings(head_size_max=4096, fields_max=16, body_size_max=8192, answer_size_max=512)
FIELDS = [("Content-Type", "text/xml"), ("SOAPAction", '"MSMQMessage"')]
POST = b"".join(request("/msmq/private$/q", "b", FIELDS, b"<xml/>"))
CHUNKED = (
    b"POST /msmq/private%24/q HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4;x=y\r\n<xml\r\n2\r\n/>\r\n0\r\nTrailer: t\r\n\r\n"
)
OLD = b"POST /msmq/q HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"
ASKING = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1)
ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
SEEDS = [
    POST,
    CHUNKED,
    OLD,
    ASKING,
    POST + CHUNKED + b"\r\n" + OLD + POST,
    b"GET /msmq/q HTTP/1.1\r\nHost: b\r\n\r\n" + POST,
    b"POST http://b/msmq/q HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhi",
    b"HTTP/1.1 100 Continue\r\n\r\n" + response(200) + response(400, "why") + ANSWER,
    response(503, keep=False),
    b"HTTP/1.0 200 OK\r\n\r\nuntil it closes",
    *(path.read_bytes() for path in sorted(VECTORS.glob("*.http"))),
]
WORDS = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b":",
    b"Content-Length: 5\r\n",
    b"Content-Length: 6\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Host: c\r\n",
    b" folded\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"\x00",
    b"\x80",
    b"%",
    b"%00",
)


def fuzz_one(data: bytes) -> bool:
    """Whether the bytes begin with a request or a response."""
    piece = 1 + sum(data[:3]) % 97
    found, fault = requests_of(data, len(data) or 1)
    assert requests_of(data, piece) == (found, fault)
    heads, error = responses_of(data, len(data) or 1)
    assert responses_of(data, piece) == (heads, error)
    for each in found:
        check_request(each)
    return bool(found or heads)


def requests_of(data: bytes, piece: int) -> tuple[list[HttpRequest], bool]:
    """The requests of a stream that arrives in such pieces, and whether it is broken."""
    reader, found = RequestReader(SETTINGS), []
    for at in range(0, len(data), piece):
        found += reader.feed(data[at : at + piece])
        assert reader.held <= SETTINGS.head_size_max + SETTINGS.body_size_max
    assert not (reader.error and (reader.held or reader.is_begun or reader.expects))
    return found, reader.error is not None


def responses_of(data: bytes, piece: int) -> tuple[list[ResponseHead], bool]:
    """The responses of a stream, up to the one that ends its connection."""
    reader = ResponseReader(SETTINGS)
    found: list[ResponseHead] = []
    for at in range(0, len(data), piece):
        found += reader.feed(data[at : at + piece])
        assert reader.held <= SETTINGS.head_size_max + SETTINGS.answer_size_max
        if found and not found[-1].keep:
            return found, False
    return found, reader.error is not None


def check_request(found: HttpRequest) -> None:
    """What was taken is what one reader only can take it for."""
    head, raw = found.head, found.head.raw
    assert raw.endswith(b"\r\n\r\n")
    assert raw.count(b"\n") == raw.count(b"\r\n") == raw.count(b"\r")
    lines = raw.lower().split(b"\r\n")[1:-2]
    assert not any(line[:1] in b" \t" for line in lines)
    lengths = [line for line in lines if line.startswith(b"content-length")]
    codings = [line for line in lines if line.startswith(b"transfer-encoding")]
    assert len(lengths) + len(codings) <= 1
    assert head.is_chunked == bool(codings)
    assert head.is_chunked or len(found.body) == head.length
    assert head.method == b"POST" or not found.body


def mutate(seed: bytes, chance: random.Random) -> bytes:
    """Damage that is worth trying: at line ends, in heads, with words that matter."""
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = [at for at in range(len(data)) if data[at] in b"\r\n: "] or [0]
        at = chance.choice((chance.choice(places), chance.randrange(len(data) + 1)))
        kind = chance.randrange(5)
        if kind == 0:
            data[at:at] = chance.choice(WORDS)
        elif kind == 1:
            del data[at : at + chance.choice((1, 1, 2, 5))]
        elif kind == 2 and at < len(data):
            data[at] = chance.choice((10, 13, 32, 0, 255, chance.randrange(256)))
        elif kind == 3:
            other = chance.choice(SEEDS)
            data[at:at] = other[: chance.randrange(len(other))]
        else:
            data += chance.choice(SEEDS)
    return bytes(data[: 1 << 14])
