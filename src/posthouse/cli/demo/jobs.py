"""The job of `posthouse demo`: submitted to a job queue, serviced by Spark."""

from __future__ import annotations

import base64
import json
from typing import Any, Final, NamedTuple

from posthouse.client.manager import QueueManagerClient
from posthouse.model.job_types import SQL

QUEUE: Final = "REPORTS"
SERVER: Final = "SPARK"
SERVER_TYPE: Final = "job_server"
STATEMENT: Final = "SELECT count(*) AS orders FROM journals.warehouse"


class Serviced(NamedTuple):
    """What became of the job."""

    number: int
    outcome: str
    orders: int  # as the statement counted them
    server: str


def submit_job(manager: QueueManagerClient) -> int:
    """A job queue, a queue server that may service it, and a job; returns its number."""
    manager.call("POST", "/bindery/objects", {"name": SERVER, "type": SERVER_TYPE})
    body = {
        "name": QUEUE,
        "users": ["EVERYONE"],
        "operators": ["SUPERVISOR"],
        "servers": [f"{SERVER_TYPE}:{SERVER}"],
    }
    manager.call("POST", "/job-queues", body)
    file = base64.b64encode(STATEMENT.encode()).decode()
    job = {"type": SQL, "description": "count the orders", "restart": True, "file": file}
    return int(manager.call("POST", f"/job-queues/{QUEUE}/jobs", job)["number"])


def what_became(manager: QueueManagerClient, number: int) -> Serviced:
    """The job's end, from its history."""
    rows = manager.call("GET", f"/job-history?queue={QUEUE}")["jobs"]
    found: dict[str, Any] = next((row for row in rows if row["number"] == number), {})
    first = json.loads(found.get("result") or "{}").get("first") or [{}]
    return Serviced(
        number,
        str(found.get("outcome", "waiting")),
        int(first[0].get("orders", 0)),
        str(found.get("server", "")),
    )
