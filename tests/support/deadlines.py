"""What every test of the engine checks beside its own matter: no timer is forgotten.

A turn asks whoever has timers only when something noted may be due. A deadline that was set and not
noted would come too late, so at the end of each turn all of them are asked here.
"""

from __future__ import annotations

from posthouse.engine.ledger.effects import Effects
from posthouse.engine.manager import QueueManager

_take_effects = QueueManager.take_effects


def check_deadlines(manager: QueueManager) -> None:
    """Nothing is due before the moments that were noted."""
    core, (at_ms, at_utc) = manager.ledger, manager.earliest_deadlines()
    noted, expires = core.deadlines, core.state.calendar.earliest
    assert noted.at_ms <= at_ms, f"due at {at_ms} ms, noted for {noted.at_ms}"
    assert min(noted.at_utc, expires) <= at_utc, f"due at {at_utc} s, noted for {noted.at_utc}"


def take_effects_checked(self: QueueManager) -> Effects:
    """`QueueManager.take_effects`, and the check."""
    effects = _take_effects(self)
    check_deadlines(self)
    return effects


def watch_deadlines() -> None:
    """Checks every turn of this process from now on."""
    QueueManager.take_effects = take_effects_checked  # type: ignore[method-assign]
