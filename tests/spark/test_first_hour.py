"""docs/first-hour.md: its question in SQL."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from posthouse.cli import main
from tests.cli.page_lines import blocks_of
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_question_in_sql_works_as_printed(
    spark: SparkSession,
    office: SparkOffice,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    office.create("paid")
    office.qm.queue(path_of("paid")).send(b"<order/>", label="paid: order 2")
    monkeypatch.setenv("POSTHOUSE_HOME", str(office.server.home))
    (block,) = (one for one in blocks_of("first-hour.md", "sh") if " pipeline " in one)
    assert main.run(shlex.split(block)[1:]) == 0
    said = capsys.readouterr().out
    assert "paid: order 2" in said
    assert "<order/>" in said
    assert office.count("paid") == 1
