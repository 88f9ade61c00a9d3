"""A disk that fills up under posts over HTTP: 500 for now, and nothing that got 200 is lost."""

from __future__ import annotations

import http.client
import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from posthouse.model.guids import format_guid
from posthouse.wire.srmp.message import FOREVER, SrmpMessage
from posthouse.wire.srmp.mime_parts import write_parts
from posthouse.wire.srmp.writer import write_envelope
from tests.process.offices import wait_until
from tests.process.spark_office import SparkOffice, path_of
from tests.support.process.small_disk import disk as disk

QUEUE, BODY = "letters", b"x" * 400_000
SENDER = bytes(range(16))
POSTS_MAX = 1_000  # far more than fit


def posted(link: http.client.HTTPConnection, ordinal: int, body: bytes = BODY) -> int:
    """The answer to one durable message."""
    target = f"/msmq/private$/{QUEUE}"
    message = SrmpMessage(
        to=f"http://{link.host}:{link.port}{target}",
        id=f"uuid:{ordinal}@{format_guid(SENDER)}",
        action="MSMQ:letter",
        durable=True,
        has_msmq=True,
        source_guid=SENDER,
        ordinal=ordinal,
        reach_by=FOREVER,
    )
    kind, payload = write_parts(write_envelope(message), body, guid=SENDER, number=ordinal)
    link.request("POST", target, payload, {"Content-Type": kind, "SOAPAction": '"MSMQMessage"'})
    answer = link.getresponse()
    answer.read()
    return answer.status


def readiness(endpoint: str) -> int:
    host, _, port = endpoint.rpartition(":")
    link = http.client.HTTPConnection(host, int(port), timeout=60)
    link.request("GET", "/readyz")
    status = link.getresponse().status
    link.close()
    return status


@pytest.mark.peer("tmpfs")
def test_a_full_disk_puts_posts_off_and_loses_none(disk: Path) -> None:
    with ExitStack() as running:
        office = SparkOffice(disk / "office", running)
        office.create(QUEUE)
        ready = json.loads((disk / "office" / "ready.json").read_text())
        host, _, port = ready["endpoints"]["http"].rpartition(":")
        link = http.client.HTTPConnection(host, int(port), timeout=60)
        running.callback(link.close)
        taken = next(at for at in range(1, POSTS_MAX) if posted(link, at) != 200) - 1
        assert taken > 0
        assert posted(link, taken + 1) == 500  # try again later
        assert readiness(ready["endpoints"]["admin"]) == 503
        status = office.qm.call("GET", "/status")
        assert (status["ready"], status["not_ready"]) == (False, ["the disk is nearly full"])
        assert posted(link, 1) == 200  # known already
        assert office.count(QUEUE) == taken

        office.qm.queue(path_of(QUEUE)).purge()
        wait_until(lambda: posted(link, taken + 1, b"late") == 200, lambda: "there is no room")
        assert office.bodies(QUEUE) == [b"late"]
