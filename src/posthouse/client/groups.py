"""A named group of a queue, for its reader: lease, claim, acknowledge, over the admin endpoint.

Every request may be asked again, so that one whose answer was lost is: a lease in a new epoch goes
to the same owner once more, a claim or an acknowledgment that is made already stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.model.group_names import GroupMode

Begin = int | Literal["earliest", "latest"]


class GroupState(NamedTuple):
    """A group as the queue manager answers: see `GroupJson` of the API."""

    name: str
    queue: str
    mode: str
    position: int  # everything up to here is acknowledged
    claim_after: int  # and what is above this,
    claimed: int  # up to here, is kept from others
    claimed_messages: int
    stream: str  # whose claim it is
    epoch: int
    owner: str
    leased: bool
    lease_left_ms: int
    lag_messages: int
    lag_bytes: int
    acknowledged: int
    received_elsewhere: int
    expired: int
    purged: int
    moved_away: int
    created_time: str
    last_time: str


class Claim(NamedTuple):
    """Messages in (after, through] that a stream is about to read: see `ClaimBody` of the API."""

    after: int
    through: int
    stream: str = ""
    skip: bool = False
    incarnation: str = ""


class GroupReader:
    """One group through one connection; like that it serves one thread at a time."""

    def __init__(self, http: BulkHttp, queue: str, name: str) -> None:
        self._http = http
        self.queue = queue
        self.name = name
        self._path = f"/queues/{segment(queue)}/groups/{segment(name)}"

    def show(self) -> GroupState:
        """How far it is."""
        return _state(self._http.call("GET", self._path))

    def lease(self, mode: GroupMode | str, owner: str, position: Begin | None = None) -> GroupState:
        """The group is the owner's, in a new epoch; a new one begins at the position."""
        asked = {"mode": str(mode), "owner": owner, "position": position}
        return _state(self._ask("lease", asked))

    def renew(self, mode: GroupMode | str, owner: str, epoch: int) -> GroupState:
        """The lease of this epoch lasts for longer."""
        return _state(self._ask("lease", {"mode": str(mode), "owner": owner, "epoch": epoch}))

    def end(self, mode: GroupMode | str, owner: str, epoch: int) -> GroupState:
        """The lease of this epoch is over; what was claimed stays so."""
        asked = {"mode": str(mode), "owner": owner, "epoch": epoch, "end": True}
        return _state(self._ask("lease", asked))

    def claim(self, epoch: int, claim: Claim) -> GroupState:
        """The messages of a range are kept from others, durably."""
        return _state(self._ask("claim", {"epoch": epoch, **claim._asdict()}))

    def acknowledge(
        self, epoch: int | None, through: int, stream: str = ""
    ) -> tuple[GroupState, int]:
        """What the stream has claimed up to an identifier is dealt with; how many were received."""
        asked = {"epoch": epoch, "through": through, "stream": stream}
        answer = self._ask("acknowledge", asked)
        return _state(answer), answer["received"]

    def release(self, stream: str) -> int:
        """Gives back what a stream has claimed; how many messages that is."""
        return int(self._ask("release", {"stream": stream})["released"])

    def _ask(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._http.call("POST", f"{self._path}/{verb}", body, repeatable=True)


def _state(answer: Mapping[str, Any]) -> GroupState:
    return GroupState(*[answer[field] for field in GroupState._fields])
