"""Job queues and the bindery: the calls of NetWare's queue services, and objects over them.

`on(manager)` works with `posthouse.connect(...)` and `posthouse.open(...)`, `ncp(host)` with any
server of NetWare's protocol. Both give a `FileServer`, whose `door` the document's calls take:
`NWCreateQueueFile(server.door, queue.id, job)`.
"""

from __future__ import annotations

from typing import Literal

from posthouse.client.manager import QueueManagerClient
from posthouse.client.netware_door import Door as Door
from posthouse.model.errors import QmsError as QmsError
from posthouse.model.print_jobs import PrintJobStruct as PrintJobStruct
from posthouse.model.qms import (
    NWCF_ENTRY_OPEN as NWCF_ENTRY_OPEN,
)
from posthouse.model.qms import (
    NWCF_OPERATOR_HOLD as NWCF_OPERATOR_HOLD,
)
from posthouse.model.qms import (
    NWCF_SERVICE_AUTO_START as NWCF_SERVICE_AUTO_START,
)
from posthouse.model.qms import (
    NWCF_SERVICE_RESTART as NWCF_SERVICE_RESTART,
)
from posthouse.model.qms import (
    NWCF_USER_HOLD as NWCF_USER_HOLD,
)
from posthouse.model.qms import NWQueueJobStruct as NWQueueJobStruct
from posthouse.qms.bindery import Bindery as Bindery
from posthouse.qms.calls import *  # noqa: F403
from posthouse.qms.objects import Attachment as Attachment
from posthouse.qms.objects import FileServer as FileServer
from posthouse.qms.objects import Job as Job
from posthouse.qms.objects import JobQueue as JobQueue
from posthouse.qms.objects import OpenJob as OpenJob
from posthouse.qms.objects import ServicedJob as ServicedJob
from posthouse.qms.sessions import SessionDoor as SessionDoor

NCP_PORT = 524


def on(
    manager: QueueManagerClient,
    name: str = "",
    type: int | str = 1,
    password: str | None = None,
) -> FileServer:
    """A station of a client session or of an embedded queue manager.

    It is the caller's user object, or another object: with its password, or without one if the
    caller is an administrator.
    """
    from posthouse.qms.bindery import number_of

    return FileServer(SessionDoor(manager, name, number_of(type), password))


def ncp(host: str, port: int = NCP_PORT, transport: Literal["tcp", "udp"] = "tcp") -> FileServer:
    """A station over NCP; log in next."""
    return FileServer(NWAttachToServerPlatform(host, port, transport))


def NWAttachToServerPlatform(
    host: str, port: int = NCP_PORT, transport: Literal["tcp", "udp"] = "tcp"
) -> Door:
    """Connects to a file server over NCP, by `tcp` or `udp`."""
    from posthouse.client.ncp.calls import NcpCalls

    return NcpCalls.connect(host, port, transport=transport)
