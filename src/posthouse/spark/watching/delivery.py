"""Delivers alarms to a log, a queue or webhooks. One that fails does not stop the others."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import QueueError
from posthouse.spark.watching.observations import Alarm
from posthouse.spark.watching.rules_file import Targets

WEBHOOK_TIMEOUT_S: Final = 10.0
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
    """One request; where it leads to is not followed. Only the host is named in what is said."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    try:
        connection.request("POST", path, text.encode("utf-8"), {"Content-Type": "application/json"})
        status = connection.getresponse().status
        if status not in _FINE:
            yield f"the webhook at {parts.hostname} answered {status}"
    except OSError as error:
        yield f"the webhook at {parts.hostname} does not answer: {error}"
    except http.client.HTTPException as error:  # its text may have the path, which is a secret
        yield f"the webhook at {parts.hostname} does not answer: {type(error).__name__}"
    finally:
        connection.close()


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=WEBHOOK_TIMEOUT_S, context=context)
    return http.client.HTTPConnection(host, port, timeout=WEBHOOK_TIMEOUT_S)
