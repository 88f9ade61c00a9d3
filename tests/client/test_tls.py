"""Sessions over TLS, with a certificate that only the tests know."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import posthouse
from posthouse import ClientConnectionError
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import read
from posthouse.client.errors import CertificateNotTrusted
from tests.client.serving import Serving, serving
from tests.support.tls_files import CERTIFICATE, KEY, expired_tls

LARGE = bytes(3_000_000)


@pytest.fixture
def secured(home: Path) -> Iterator[Serving]:
    """A server whose admin endpoint speaks TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE, KEY)
    with serving(home, context) as server:
        yield server


@pytest.fixture
def token(secured: Serving) -> str:
    """A token of the administrator."""
    with posthouse.connect(secured.home) as local:
        made: str = local.call("POST", "/tokens", {"role": "administer"})["token"]
        return made


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CERTIFICATE)


def test_messages_over_tls(secured: Serving, token: str, path: str) -> None:
    with posthouse.connect(url=secured.url, token=token, tls=trusting()) as manager:
        queue = manager.create_queue(path)
        queue.send_many([b"%d" % number for number in range(1000)])
        queue.send(LARGE)
        bodies = [message.body for message in queue.consume(timeout=0)]
    assert bodies == [*(b"%d" % number for number in range(1000)), LARGE]


def test_tables_over_tls(secured: Serving, token: str, path: str) -> None:
    with posthouse.connect(secured.home) as manager:
        manager.create_queue(path).send_many([LARGE, *(b"%d" % n for n in range(1000))])
    with BulkHttp(secured.url, token, ca_file=str(CERTIFICATE)) as http:
        batches = list(read(http, path, 0, 1 << 40, ["body"]))
    bodies = [body for batch in batches for body in batch.column("body").to_pylist()]
    assert bodies == [LARGE, *(b"%d" % n for n in range(1000))]
    with BulkHttp(secured.url, token) as http, pytest.raises(ClientConnectionError, match="TLS"):
        http.call("GET", "/status")


def test_threads_share_a_session_over_tls(secured: Serving, token: str, path: str) -> None:
    """One reads for all while the others write: TLS does one thing at a time."""
    with posthouse.connect(url=secured.url, token=token, tls=trusting()) as manager:
        queue = manager.create_queue(path)

        def send(place: int) -> None:
            for number in range(30):
                queue.send(b"%d %d" % (place, number) + bytes(20_000))

        def receive(place: int) -> list[bytes]:
            return [queue.receive(30).body[:6].rstrip(b"\0") for _ in range(30)]

        with ThreadPoolExecutor(8) as pool:
            found = [pool.submit(receive, place) for place in range(4)]
            list(pool.map(send, range(4)))
            bodies = [body for future in found for body in future.result()]
    assert sorted(bodies) == sorted(b"%d %d" % (a, b) for a in range(4) for b in range(30))


def test_messages_over_tls_awaited(secured: Serving, token: str, path: str) -> None:
    async def main() -> list[bytes]:
        url, tls = secured.url, trusting()
        async with posthouse.aio.connect(url=url, token=token, tls=tls) as manager:
            queue = await manager.create_queue(path)
            await queue.send_many([b"small", LARGE])
            return [message.body async for message in queue.consume(timeout=0)]

    assert asyncio.run(main()) == [b"small", LARGE]


def test_a_certificate_that_nobody_vouches_for(secured: Serving, token: str) -> None:
    async def main() -> None:
        await posthouse.aio.connect(url=secured.url, token=token)

    with pytest.raises(ClientConnectionError, match="tls="):
        posthouse.connect(url=secured.url, token=token)
    with pytest.raises(ClientConnectionError, match="tls="):
        asyncio.run(main())


def test_a_certificate_that_is_out_of_date_is_to_be_renewed(home: Path, tmp_path: Path) -> None:
    """Trusting it would not help, whichever way a client comes."""
    context, authority = expired_tls(tmp_path)
    trusting = ssl.create_default_context(cafile=authority)

    async def main(url: str) -> None:
        await posthouse.aio.connect(url=url, token="pht_x", tls=trusting)

    with serving(home, context) as server:
        advice = "has expired.*Renew it where the queue manager runs"
        with pytest.raises(CertificateNotTrusted, match=advice):
            posthouse.connect(url=server.url, token="pht_x", tls=trusting)
        with pytest.raises(CertificateNotTrusted, match=advice):
            asyncio.run(main(server.url))
        with (
            BulkHttp(server.url, "pht_x", ca_file=str(authority)) as http,
            pytest.raises(CertificateNotTrusted, match=advice),
        ):
            http.call("GET", "/status")


def test_tls_where_there_is_none(server: Serving) -> None:
    url = server.url.replace("http://", "https://")
    with pytest.raises(ConnectionError):
        posthouse.connect(url=url, token="pht_x", timeout=1)
