"""Rights on queues, for tests."""

from __future__ import annotations

from posthouse.security.access import default_queue_descriptor
from posthouse.security.sids import ADMINISTRATORS
from tests.protocols.remote_read.rig import ServerRig


def grant(rig: ServerRig, queue: str, who: str | bytes, mask: int) -> None:
    """The queue is that user's to use so, besides the administrators'."""
    sid = who if isinstance(who, bytes) else rig.manager.accounts.find(who).sid
    security = default_queue_descriptor(ADMINISTRATORS, ((sid, mask),))
    path = f".\\private$\\{queue}"
    rig.run(lambda m: m.queues.set_queue_security(path, rig.admin, security))


def revoke(rig: ServerRig, queue: str, who: str) -> None:
    """The user may do nothing any more."""
    grant(rig, queue, who, 0)
