"""`posthouse selftest`: simulated queue managers on bad machines and a bad network."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

import typer

from posthouse.cli.output import complain, print_json, say
from posthouse.cli.progress import bar
from posthouse.sim.routed import RoutedTrial
from posthouse.sim.stranger_trial import StrangerRoutedTrial, StrangerTrial
from posthouse.sim.trial import PROTOCOLS, Failed, Trial

FAILED = 1
Way = Literal["binary", "srmp", "routed"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Installation")(selftest)


def selftest(
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Number of trials.")
    ] = 100,
    first: Annotated[
        int, typer.Option("--first", metavar="SEED", min=0, help="Seed of the first trial.")
    ] = 0,
    protocol: Annotated[
        Way | None,
        typer.Option(
            "--protocol", help="Protocol to test (default: binary and srmp, each seed twice)."
        ),
    ] = None,
    stranger: Annotated[
        bool,
        typer.Option(
            "--stranger", help="Add an attacker who sends messages in the name of others."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print each trial as one line of JSON.")
    ] = False,
) -> None:
    """Test the delivery of messages on simulated disks and a simulated network.

    Each trial has two or three queue managers with simulated disks that forget and tear, a network
    that cuts, delays and loses, and crashes at any moment; once over the binary protocol, once
    over HTTP (SRMP). With --protocol routed there are seven in three sites, with routing servers
    and gates between them and a directory that changes. In the end every message has to be where
    it was to go, once and in order, and all journals, dead letters and acknowledgments with it.
    Everything follows from the seed, so a trial that failed fails again.

    With --stranger an attacker is on the network who has all GUIDs, sequences and message
    numbers and sends messages, acknowledgments and copies in the name of others, from addresses of
    its own. In a third of these trials a machine that sends gets other addresses meanwhile; in
    some, two machines send through one NAT. The promise stays the same for all but the stranger.

    Exit code 0: all as promised, 1: not.

    Example: posthouse selftest --seeds 5

    Example: posthouse selftest --stranger --protocol routed --seeds 5
    """
    totals: Counter[str] = Counter()
    ways: tuple[Way, ...] = PROTOCOLS if protocol is None else (protocol,)
    trials = [(seed, way) for seed in range(first, first + seeds) for way in ways]
    with bar("trials", len(trials), quiet=json) as advance:
        for done, (seed, way) in enumerate(trials):
            try:
                summary = _trial(seed, way, stranger).run()
            except Failed as failure:
                _tell_failure(seed, way, failure, json)
                raise typer.Exit(FAILED) from None
            totals.update(summary.figures())
            if json:
                print_json({"passed": True, "protocol": way, **summary._asdict()})
            advance(done + 1, len(trials))
    if not json:
        _tell(len(trials), totals)


def _trial(seed: int, way: Way, stranger: bool) -> Trial:
    if way == "routed":
        return StrangerRoutedTrial(seed) if stranger else RoutedTrial(seed)
    return StrangerTrial(seed, way) if stranger else Trial(seed, way)


def _tell(trials: int, totals: Counter[str]) -> None:
    say(
        f"{trials:,} trials passed: {totals['sent']:,} messages sent,"
        f" {totals['crashes']:,} crashes, {totals['cuts']:,} cuts,"
        f" {totals['connections']:,} connections,"
        f" {totals['simulated_s'] // 60:,} simulated minutes."
    )
    if totals["forged"]:
        say(
            f"The attacker sent {totals['forged']:,} forged messages, of which"
            f" {totals['anonymous']:,} were delivered as anonymous ones;"
            f" machines changed their address {totals['moves']:,} times."
        )


def _tell_failure(seed: int, way: Way, failure: Failed, json: bool) -> None:
    if json:
        print_json({"passed": False, "protocol": way, "seed": seed, "failure": str(failure)})
    else:
        for line in str(failure).splitlines():
            complain(line)
