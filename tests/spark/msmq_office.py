"""A queue manager that Spark reaches as it would any MSMQ: over remote read and binary sessions."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import posthouse
from tests.process.rpc_house import PASSWORD, USER, add_user, port_of
from tests.process.spark_office import SparkOffice, path_of

_numbers = count(1)


class MsmqOffice(SparkOffice):
    """The other computer: it has a user who may log in over RPC."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        super().__init__(folder, running, "FAR")
        ready = json.loads((folder / "ready.json").read_text())
        endpoints = ready["endpoints"]
        add_user(self.qm)
        password_file = folder / "password"
        password_file.write_text(PASSWORD + "\n", encoding="utf-8")
        self.options = {
            "transport": "msmq",
            "host": "127.0.0.1",
            "user": USER,
            "passwordFile": str(password_file),
            "rpcPort": str(port_of(endpoints["rpc"])),
            "binaryPort": str(port_of(endpoints["binary"])),
            "timeout": "10",
        }

    def new(self, **properties: bool) -> str:
        """A queue that the user may do everything with; its name behind the host."""
        name = f"far{next(_numbers)}"
        self.create(name, **properties)
        body = {"who": USER, "rights": ["full"]}
        path = path_of(name).replace("\\", "%5C")
        self.qm.call("POST", f"/queues/{path}/access/grant", body)
        return f"private$\\{name}"

    def queue(self, name: str) -> posthouse.Queue:
        """The same queue, locally."""
        return self.qm.queue(f".\\{name}")
