"""The types of the API that tell how parts of the queue manager stand."""

from __future__ import annotations

from posthouse.protocols.admin.transfer_types import Part


class DirectoryStatusJson(Part):
    """How the directory stands: who speaks for it, and since when it is online, or why not.

    It is `shared` where a file or a server speaks for several queue managers; `routing_server`
    is the role of this one.
    `unusable` tells of objects of the authority that nobody could use.
    """

    source: str
    online: bool
    since: str
    refreshed: str
    reason: str
    unusable: list[str]
    shared: bool = False
    routing_server: bool = False
