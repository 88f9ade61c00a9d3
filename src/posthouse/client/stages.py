"""Batches of messages that are published as one commit: staged by many writers, published by one.

A writer stages what one attempt at a partition brings; the one that commits the batch names the
attempts that count. Both may be asked again after any failure: a stage replaces itself, and a batch
is published once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.model.errors import StatusNotFound


class Staged(NamedTuple):
    """What a writer staged; nothing, where the batch is published already."""

    messages: int
    bytes: int
    already: bool


class Signature(NamedTuple):
    """By what a batch is known beside its number: see `PublishBody` of the API."""

    content: str = ""
    run: str = ""
    writer: str = ""


UNSIGNED: Final = Signature()


class Published(NamedTuple):
    """What a commit published; `already`: this batch was before."""

    messages: int
    already: bool


class Progress(NamedTuple):
    """How far a query has published: None before its first batch."""

    batch: int | None
    messages: int
    stages: int


def stage(
    http: BulkHttp,
    query: str,
    batch: int,
    partition: int,
    attempt: int,
    schema: Any,
    batches: Iterable[Any],
    queue: str = "",
    signature: Signature = UNSIGNED,
) -> Staged:
    """Stages the rows of record batches; durable and unseen when it returns.

    `queue` is where rows go that name no destination. A `QueueError` whose `row` is not None names
    the faulty row, from 0 on, and its `column`: then nothing is staged.
    """
    path = f"/stages/{segment(query)}/{batch}/{partition}/{attempt}"
    asked = {"queue": queue, **signature._asdict()}
    if given := {name: value for name, value in asked.items() if value}:
        path += f"?{urlencode(given, quote_via=quote)}"
    answer = http.write_arrow("PUT", path, schema, batches)
    return Staged(answer["messages"], answer["bytes"], answer["already"])


def publish(
    http: BulkHttp,
    query: str,
    batch: int,
    stages: Sequence[tuple[int, int]],
    signature: Signature = UNSIGNED,
) -> Published:
    """Publishes the stages (partition, attempt) of a batch, all of them or none."""
    body = {"query": query, "batch": batch, "stages": [list(one) for one in stages]}
    answer = http.call("POST", "/publish", {**body, **signature._asdict()}, repeatable=True)
    return Published(answer["messages"], answer["already"])


def discard(http: BulkHttp, query: str, batch: int) -> int:
    """Drops the stages of a batch that is given up; how many there were."""
    answer = http.call("DELETE", f"/stages/{segment(query)}/{batch}")
    return int(answer["stages"])


def forget(http: BulkHttp, query: str) -> None:
    """Drops what is known of a query, stages included; one that is not known is not an error."""
    with suppress(StatusNotFound):
        http.call("DELETE", f"/queries/{segment(query)}")


def progress(http: BulkHttp, query: str) -> Progress:
    """How far a query has published."""
    answer = http.call("GET", f"/queries/{segment(query)}")
    return Progress(answer["batch"], answer["messages"], answer["stages"])
