"""`posthouse migrate verify`: counts and digests of the source, of what was pulled, and here."""

from __future__ import annotations

from contextlib import closing

import typer

from posthouse.cli.command import talking
from posthouse.cli.connection import Remote
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
    each_queue,
    machines,
)
from posthouse.cli.output import print_json, say
from posthouse.client.remote.pull.verify import PullDifferences, compare


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
            with closing(found.queue(queue, takes=False)) as reader:
                result = compare(remote.client, found.source(queue), queue.target, reader)
            _tell(remote, queue, result)
            return result.equal

        queues = choice.queues(reach)
        code = max(choice.gaps(), each_queue(queues, one, alone=source is not None))
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
    if found.missing_count:
        say(f"  {found.missing_count:,} were not pulled, lookup ids {_some(found.missing)}")
    if found.different_count:
        say(f"  {found.different_count:,} differ, lookup ids {_some(found.different)}")
    if found.twice_count:
        say(f"  {found.twice_count:,} are here twice, ids {_some(found.twice)}")


def _some(values: list[int] | list[str]) -> str:
    return ", ".join(map(str, values))
