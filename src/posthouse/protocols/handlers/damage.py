"""Damaged records of messages: what was set aside, and an operator's decision."""

from __future__ import annotations

from posthouse.api.status import (
    DamageAcceptBody,
    DamagedRecordJson,
    DamageListJson,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.ledger.damaged_records import DamagedRecord
from posthouse.engine.manager import QueueManager
from posthouse.model.message_json import time_text
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.refusals import NoSuchDamage
from posthouse.store.format import segment_name


def list_damage(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> DamageListJson:
    """Lists the damaged records of messages that were set aside and are not decided."""
    context.require_administrator()
    return DamageListJson(
        records=[_json(manager, one) for one in manager.machine.damaged_records()]
    )


def accept_damage(
    manager: QueueManager, context: Context, params: Nothing, body: DamageAcceptBody
) -> Done:
    """Gives up damaged records: their messages are purged. The log keeps who did it."""
    context.require_administrator()
    undecided = {
        (segment_name(one.segment), one.offset): one for one in manager.machine.damaged_records()
    }
    asked = dict.fromkeys((one.file, one.offset) for one in body.records)
    for place in asked:
        if place not in undecided:
            file, offset = place
            raise NoSuchDamage(
                f"{file} has no damaged record to decide about at offset {offset}",
                "`posthouse damage list` shows what is to be decided.",
            )
    manager.machine.accept_damage([undecided[place] for place in asked], context.caller.name)
    return Done()


def _json(manager: QueueManager, damaged: DamagedRecord) -> DamagedRecordJson:
    found = manager.machine.damaged_message(damaged)
    queue = found[0] if found else None
    return DamagedRecordJson(
        file=segment_name(damaged.segment),
        offset=damaged.offset,
        bytes=damaged.size,
        reason=damaged.reason,
        message=damaged.number or damaged.named,
        queue=queue.name if queue else None,
        lookup_id=found[1].lookup_id if found else None,
        found=time_text(damaged.found) if damaged.found else None,
    )
