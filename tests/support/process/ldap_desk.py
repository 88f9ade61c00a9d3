"""A server whose directory is OpenLDAP, and its entries."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.process.hostile_ldap import (
    ROOT,
    SEARCH,
    Answer,
    HostileLdap,
    Request,
    civil,
    done,
    entry,
    hostile_ldap,
)
from tests.process.offices import Office

# Nothing is read of itself: a test asks.
SECTION = """
[directory]
refresh_s = 3600
online_s = 3600
[directory.ldap]
url = "{url}"
start_tls = false
connect_s = 1
time_limit_s = 1
page_size = 1
"""


class Desk:
    """ALPHA, and the server that it asks."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.server: HostileLdap = running.enter_context(hostile_ldap())
        more = SECTION.format(url=self.server.url)
        self.office = Office(folder / "ALPHA", "ALPHA", running, more)
        self.qm = self.office.qm

    def reason(self, answer: Answer) -> str:
        """Why the directory is away while the server answers so."""
        self.server.answer = answer
        status = self.qm.call("POST", "/directory/refresh")
        assert not status["online"]
        return str(status["reason"])


ALPHA = b"CN=ALPHA,CN=Computers," + ROOT


MSMQ = b"CN=msmq," + ALPHA


Attributes = dict[bytes, list[bytes]]


class Shelf:
    """Entries that stand where they stand; whatever is written succeeds, and changes nothing."""

    def __init__(self, guid: bytes) -> None:
        self.entries: dict[bytes, Attributes] = {}
        self.put(ALPHA, b"computer", 90)
        self.put(MSMQ, b"mSMQConfiguration", objectGUID=[guid])

    def put(self, dn: bytes, kind: bytes, number: int = 0, **more: list[bytes]) -> None:
        attributes = {name.replace("_", ";").encode(): values for name, values in more.items()}
        identified = {b"objectGUID": [bytes(15) + bytes((number,))]} if number else {}
        self.entries[dn] = {b"objectClass": [kind], **identified, **attributes}

    def answer(self, request: Request) -> bytes:
        if request.operation != SEARCH or not request.base:
            return civil(request)
        told = (
            entry(request, dn, listed)
            for dn, listed in self.entries.items()
            if self._is_asked_for(request, dn, listed)
        )
        return b"".join(told) + done(request)

    def _is_asked_for(self, request: Request, dn: bytes, listed: Attributes) -> bool:
        if request.is_by_octets:
            return any(one in request.content for one in listed.get(b"objectGUID", []))
        return request.base.encode() in (ROOT, dn)


def below(name: str) -> bytes:
    """A queue of ALPHA."""
    return b"CN=" + name.encode() + b"," + MSMQ
