"""An embedded queue manager follows the section `[qms]` of its home's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

import posthouse
from posthouse import qms
from posthouse.model.completion_codes import Q_FULL
from posthouse.model.errors import QmsError


def test_limits_of_job_queues_are_those_of_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "posthouse.toml").write_text("[qms]\njobs_max = 2\n", encoding="utf-8")
    with posthouse.open(home, name="ALPHA") as manager, qms.on(manager) as station:
        queue = station.create_queue("WORK", users=["SUPERVISOR"])
        queue.submit(b"")
        queue.submit(b"")
        with pytest.raises(QmsError) as refused:
            queue.submit(b"")
        assert refused.value.completion == Q_FULL


def test_a_home_without_settings_has_the_usual_limits(tmp_path: Path) -> None:
    with posthouse.open(tmp_path / "home", name="ALPHA") as manager, qms.on(manager) as station:
        queue = station.create_queue("WORK", users=["SUPERVISOR"])
        for _ in range(3):
            queue.submit(b"")
