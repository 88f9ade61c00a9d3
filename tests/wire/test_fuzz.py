"""A short, repeatable run of the fuzz target; long runs are `python fuzz/fuzz_packet.py`."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FUZZ_PACKET = Path(__file__).parents[2] / "fuzz" / "fuzz_packet.py"


@pytest.fixture(scope="module")
def fuzz_packet() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_packet", FUZZ_PACKET)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_packets_are_read_or_refused(
    fuzz_packet: ModuleType, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = fuzz_packet.run(seconds=60, runs=8000, seed=seed)
    assert not findings, capsys.readouterr().out


def test_undamaged_user_messages_are_accepted(fuzz_packet: ModuleType) -> None:
    assert sum(map(fuzz_packet.target, fuzz_packet.seeds())) == 8


def test_a_run_says_what_it_did(
    fuzz_packet: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fuzz_packet.main(["--runs", "20", "--seed", "7"]) == 0
    assert capsys.readouterr().out.startswith("20 executions, ")
