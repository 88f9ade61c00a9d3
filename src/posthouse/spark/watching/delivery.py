"""Delivers alarms to a log, a queue or webhooks. One that fails does not stop the others."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import QueueError
from posthouse.spark.watching.observations import Alarm
from posthouse.spark.watching.rules_file import Targets

WEBHOOK_TIMEOUT_S: Final = 10.0  # of a whole request, from the name's resolution to the answer
_FINE: Final = range(200, 300)
LABEL_MAX: Final = 249


def alarm_json(alarm: Alarm) -> dict[str, Any]:
    """An alarm as it is logged and sent."""
    moment = datetime.fromtimestamp(alarm.at_s, UTC).isoformat(timespec="seconds")
    return {
        "rule": alarm.rule,
        "subject": alarm.subject,
        "text": alarm.text,
        "time": moment.replace("+00:00", "Z"),
        "figure": round(alarm.figure, 3),
        "over": alarm.is_over,
    }


class Delivery:
    """The targets of a file of rules."""

    def __init__(self, targets: Targets, api: BulkHttp) -> None:
        self._targets = targets
        self._api = api

    def deliver(self, alarms: Iterable[Alarm]) -> Iterator[str]:
        """Sends alarms everywhere; yields what could not be done, in words."""
        for alarm in alarms:
            text = json.dumps(alarm_json(alarm), ensure_ascii=False)
            yield from self._log(text)
            yield from self._queue(alarm, text)
            for url in self._targets.webhooks:
                yield from _posted(url, text)

    def _log(self, text: str) -> Iterator[str]:
        if self._targets.log:
            try:
                with Path(self._targets.log).open("a", encoding="utf-8") as file:
                    file.write(text + "\n")
            except OSError as error:
                yield f"the alarm was not logged: {error}"

    def _queue(self, alarm: Alarm, text: str) -> Iterator[str]:
        if not self._targets.queue:
            return
        label = f"alarm: {alarm.rule}"[:LABEL_MAX]
        body = {"label": label, "body_text": text, "delivery": "recoverable", "priority": 7}
        path = f"/queues/{segment(self._targets.queue)}/messages"
        try:
            self._api.call("POST", path, body)
        except (QueueError, ClientConnectionError) as error:
            yield f"the alarm was not sent to {self._targets.queue}: {error}"


def _posted(url: str, text: str) -> Iterator[str]:
    """One request; where it leads to is not followed. Only the host is named in what is said.

    A timeout of a socket starts again with each byte, so the request has a thread, and its
    connection is cut when the time for all of it is over.
    """
    parts = urlsplit(url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    said: list[str] = []
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    thread = Thread(target=_post, args=(connection, path, text, said), daemon=True)
    thread.start()
    thread.join(WEBHOOK_TIMEOUT_S)
    if thread.is_alive():
        _cut(connection)
        said = [f"does not answer: it has taken more than {WEBHOOK_TIMEOUT_S:g} s"]
    for words in said:
        yield f"the webhook at {parts.hostname} {words}"


def _post(connection: http.client.HTTPConnection, path: str, text: str, said: list[str]) -> None:
    try:
        connection.request("POST", path, text.encode("utf-8"), {"Content-Type": "application/json"})
        status = connection.getresponse().status
        if status not in _FINE:
            said.append(f"answered {status}")
    except OSError as error:
        said.append(f"does not answer: {error}")
    except (
        http.client.HTTPException,
        ValueError,
    ) as error:  # its text may have the path, which is a secret
        said.append(f"does not answer: {type(error).__name__}")
    finally:
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    """End what another thread reads, also under TLS, whose own shutdown would disturb it."""
    if connection.sock is not None:
        with suppress(OSError):
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=WEBHOOK_TIMEOUT_S, context=context)
    return http.client.HTTPConnection(host, port, timeout=WEBHOOK_TIMEOUT_S)
