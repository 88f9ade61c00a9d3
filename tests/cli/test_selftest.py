"""`posthouse selftest`."""

from __future__ import annotations

import json

import pytest

from posthouse.cli.main import run
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.receiving import Receiving
from posthouse.sim.routed import RoutedTrial
from posthouse.sim.trial import PROTOCOLS, Trial


def test_trials_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["selftest", "--seeds", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 trials passed: ")
    trials = [Trial(0, way).run().figures() for way in PROTOCOLS]
    minutes = sum(figures["simulated_s"] for figures in trials) // 60
    assert minutes > 0
    assert shown.endswith(f" {minutes:,} simulated minutes.\n")


def test_each_trial_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["selftest", "--seeds", "2", "--first", "5", "--protocol", "srmp", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["seed"], line["protocol"]) for line in lines] == [(5, "srmp"), (6, "srmp")]
    assert all(line["passed"] and line["sent"] for line in lines)


def test_messages_over_routers_are_tried_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["selftest", "--protocol", "routed", "--seeds", "1", "--first", "31", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line == RoutedTrial(31).run()._asdict() | {"passed": True, "protocol": "routed"}


def test_a_failure_over_routers_replays_as_such(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that it prints is run as it stands, and fails in the same way."""
    monkeypatch.setattr(Receiving, "_is_known", lambda *arguments: False)
    assert run(["selftest", "--protocol", "routed", "--seeds", "9"]) == 1
    first = capsys.readouterr().err
    (line,) = [line for line in first.splitlines() if line.startswith("Replay it: ")]
    assert run(line.removeprefix("Replay it: posthouse ").split()) == 1
    assert capsys.readouterr().err == first


@pytest.mark.parametrize("wants_json", [False, True])
def test_a_failure_says_how_to_see_it_again(
    wants_json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MessageHistory, "_define", lambda *arguments: None)
    switches = ["--protocol", "binary", *(["--json"] if wants_json else [])]
    assert run(["selftest", "--seeds", "60", *switches]) == 1
    written = capsys.readouterr()
    if wants_json:
        last = json.loads(written.out.splitlines()[-1])
        assert not last["passed"]
        assert f"--first {last['seed']} --seeds 1" in last["failure"]
    else:
        assert "Replay it: posthouse selftest --protocol binary --first" in written.err
