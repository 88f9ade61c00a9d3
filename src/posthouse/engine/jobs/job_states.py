"""The states of a job and the transitions between them (QMS, Tables 26 and 27)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.engine.jobs.history import ABANDONED, DESTROYED, FAILED, FINISHED, REMOVED
from posthouse.engine.jobs.job import JobState
from posthouse.model.qms import NWCF_ENTRY_OPEN
from posthouse.model.transitions import Row, StateMachine


class JobPhase(Enum):
    """Where a job is in its life. A hold is a flag beside it: no server gets a held job."""

    OPEN = "open"
    WAITING = "waiting"
    IN_SERVICE = "in service"
    ENDED = "ended"


class JobEvent(Enum):
    """What happens to a job. The names of ends are those of the history."""

    START = "start"
    SERVICE = "service"
    GIVE_BACK = "give back"
    CHANGE = "change"
    FINISH = FINISHED
    FAIL = FAILED
    REMOVE = REMOVED
    ABANDON = ABANDONED
    DESTROY = DESTROYED


_OPEN, _WAITING = JobPhase.OPEN, JobPhase.WAITING
_IN_SERVICE, _ENDED = JobPhase.IN_SERVICE, JobPhase.ENDED
_ALIVE = _OPEN, _WAITING, _IN_SERVICE

JOB_STATES: Final = StateMachine(
    "job",
    _OPEN,
    [
        Row((_OPEN,), JobEvent.START, _WAITING, "closed by its client, or auto-started when lost"),
        Row((_WAITING,), JobEvent.SERVICE, _IN_SERVICE, "NWServiceQueueJob: a server takes it"),
        Row(
            (_IN_SERVICE,),
            JobEvent.GIVE_BACK,
            _WAITING,
            "Table 26: aborted or its server lost, with the restart flag",
        ),
        *(
            Row((each,), JobEvent.CHANGE, each, "entry, position or queue changed")
            for each in _ALIVE
        ),
        Row((_IN_SERVICE,), JobEvent.FINISH, _ENDED, "NWFinishServicingQueueJob"),
        Row((_IN_SERVICE,), JobEvent.FAIL, _ENDED, "Table 26: aborted, without the restart flag"),
        Row(_ALIVE, JobEvent.REMOVE, _ENDED, "NWRemoveJobFromQueue, or its client aborts it"),
        Row((_OPEN,), JobEvent.ABANDON, _ENDED, "Table 26: its client is lost, no auto-start"),
        Row(_ALIVE, JobEvent.DESTROY, _ENDED, "NWDestroyQueue"),
    ],
)


def phase_of(state: JobState) -> JobPhase:
    """The phase that the kept fields of a job show."""
    if state.flags & NWCF_ENTRY_OPEN:
        return _OPEN
    return _IN_SERVICE if state.server_id else _WAITING
