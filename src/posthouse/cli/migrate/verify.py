"""`posthouse migrate verify`: counts and digests of the source, of what was pulled, and here."""

from __future__ import annotations

from contextlib import closing

import typer

from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
from posthouse.cli.migrate.machines import each_queue, machines
from posthouse.cli.migrate.sources import (
    Choice,
    FromInventory,
    MigrateSource,
    MigrateTarget,
    OnMachine,
    Reach,
    SourceQueue,
    WithDeadLetters,
    WithJournals,
)
from posthouse.cli.output import print_json, say
from posthouse.client.remote.pull.verify import (
    PullDifferences,
    check_not_here,
    compare,
    unreadable_words,
)


@talking
def verify(
    remote: Remote,
    source: MigrateSource = None,
    target: MigrateTarget = None,
    inventory: FromInventory = None,
    machine: OnMachine = None,
    journals: WithJournals = False,
    dead_letters: WithDeadLetters = False,
    *,
    reach: Reach,
) -> None:
    r"""Compare counts and digests of queues elsewhere with what was pulled, and with queues here.

    Every message of both is looked at; none is taken. Messages that were received here since are
    counted, and are not a difference.

    Exit code 0: no difference, 1: there are some, or a queue is not in the inventory, 3: a machine
    was not reached, now or by the scan.

    Example: posthouse migrate verify 'winhost/private$/orders' --user 'CORP\me' < password.txt
    """
    choice = Choice(source, target, inventory, machine, journals, dead_letters)
    with machines(reach) as found:

        def one(queue: SourceQueue) -> bool:
            there = found.source(queue)
            check_not_here(remote.client, there)
            before = found.count(queue)
            with closing(found.queue(queue, takes=False)) as reader:
                found.open(queue, reader)
                result = compare(remote.client, there, queue.target, reader)
                result.unreadable = before and 0
                if before is not None and before > result.at_source:
                    result.unreadable = found.unreadable(queue, reader)
            _tell(remote, queue, result)
            return result.equal

        queues = choice.queues(reach)
        code = max(choice.gaps(), each_queue(found, queues, one, alone=source is not None))
    if code:
        raise typer.Exit(code)


def _tell(remote: Remote, queue: SourceQueue, found: PullDifferences) -> None:
    if remote.json:
        fields = {"host": queue.place.host, "source": str(queue.name), "target": queue.target}
        fields["equal"] = found.equal  # type: ignore[assignment]
        print_json(fields | {name: getattr(found, name) for name in found.__struct_fields__})
        return
    word = "no difference" if found.equal else "DIFFERENT"
    others = f", {found.others_here:,} of others" if found.others_here else ""
    say(
        f"{queue.label}: {word}. {found.at_source:,} at the source, {found.pulled:,} pulled; "
        f"{found.here:,} of them in {queue.target}{others}, {found.received_here:,} received."
    )
    if found.left_out:
        say(f"  {found.left_out:,} are in that journal because pulls received them.")
    if found.other_guid:
        say(
            f"  It was pulled under another GUID, {found.other_guid}: name or port lead to another "
            "machine than before, or it was set up again."
        )
    if found.missing_count:
        say(f"  Not pulled: {found.missing_count:,}, lookup ids {_some(found.missing)}")
    if found.different_count:
        say(f"  Different: {found.different_count:,}, lookup ids {_some(found.different)}")
    if found.twice_count:
        say(f"  Here twice: {found.twice_count:,}, ids {_some(found.twice)}")
    if found.unreadable:
        say(f"  {unreadable_words(found.unreadable)}.")


def _some(values: list[int] | list[str]) -> str:
    return ", ".join(map(str, values))
