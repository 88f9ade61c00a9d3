"""Failed messages from Python: blocking and asyncio."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import posthouse
import posthouse.aio
from posthouse import Draft
from posthouse.api.failures import FailureGroupJson, ReturnJson
from posthouse.protocols.handlers import failed_messages
from tests.client.serving import Serving, serving
from tests.support.failed_messages import failed

HOW = [{"extension": b64decode(failed(cause=cause))} for cause in ("even", "odd")]
ERROR, ORDERS = r".\private$\error", r".\private$\orders"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A queue manager with an error queue; one page of it is one step."""
    monkeypatch.setattr(failed_messages, "PAGE_SCANNED", 1)
    with serving(tmp_path / "home") as running:
        with posthouse.connect(running.home) as manager:
            error = manager.create_queue(ERROR, transactional=True)
            manager.create_queue(ORDERS, transactional=True)
            with manager.transaction() as tx:
                error.send_many(
                    [Draft(str(number), **HOW[number % 2]) for number in range(600)], tx=tx
                )
        yield running


def check(groups: list[FailureGroupJson], dry: ReturnJson, done: ReturnJson) -> None:
    assert [(group.exception_message, group.count) for group in groups] in (
        [("odd", 300), ("even", 300)],
        [("even", 300), ("odd", 300)],
    )
    assert (dry.matched, dry.done, dry.scanned) == (300, 0, 600)
    assert (done.matched, done.done, done.next) == (300, 300, None)
    assert [(one.to, one.done) for one in done.targets] == [(r"ALPHA\private$\orders", 300)]


def test_blocking(house: Serving) -> None:
    with posthouse.connect(house.home) as manager:
        error = manager.queue(ERROR)
        groups = error.failures()
        key = groups[0].key
        dry = error.return_messages(group=key, dry_run=True)
        check(groups, dry, error.return_messages(group=key))
        bodies = [int(message.text) for message in manager.queue(ORDERS).browse()]
        assert bodies == sorted(bodies)
        assert len(bodies) == 300
        assert error.return_messages('exception_message = "none"').matched == 0


def test_asyncio(house: Serving) -> None:
    async def main() -> None:
        async with posthouse.aio.connect(house.home) as manager:
            error = manager.queue(ERROR)
            groups = await error.failures(similar=True)
            key = groups[0].key
            dry = await error.return_messages(group=key, dry_run=True)
            check(groups, dry, await error.return_messages(group=key))

    asyncio.run(main())


def test_a_poison_policy_from_python(house: Serving) -> None:
    with posthouse.connect(house.home) as manager:
        queue = manager.create_queue(
            r".\private$\policy", transactional=True, max_aborts=2, retry_delays_s=[0]
        )
        queue.send("a", transactional=True)
        for _ in range(2):
            with suppress(RuntimeError), manager.transaction() as tx:
                queue.receive(timeout=5, tx=tx)
                raise RuntimeError("the handler has failed")
        assert queue.subqueue("poison").receive(timeout=5).text == "a"
        assert queue.set(max_aborts=0).max_aborts == 0

    async def main() -> None:
        async with posthouse.aio.connect(house.home) as manager:
            name = r".\private$\late"
            made = await manager.create_queue(name, transactional=True, retry_delays_s=[3600])
            await made.send("a", transactional=True)
            with suppress(RuntimeError):
                async with manager.transaction() as tx:
                    await made.receive(timeout=5, tx=tx)
                    raise RuntimeError("the handler has failed")
            assert (await made.properties()).retry_waiting == 1

    asyncio.run(main())
