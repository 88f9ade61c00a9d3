"""Each loss begins with a word of its own, which alerts match."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from posthouse.spark import data_loss
from posthouse.spark.data_loss import DataLoss, Losses, LossWord, check_position
from posthouse.spark.failures import cause_of

PAGE = Path(__file__).parents[2] / "docs" / "spark-guarantees.md"
A = "ALPHA\\private$\\a"
SAID = [
    (data_loss.purged(A, 1, 2), LossWord.PURGED),
    (data_loss.deleted(A, 1), LossWord.DELETED),
    (data_loss.missing(A), LossWord.MISSING),
    (data_loss.not_read_now(A, 1, 2), LossWord.NOT_READ),
    (data_loss.not_the_same(A, 1, "queue"), LossWord.MADE_AGAIN),
    (data_loss.not_the_same(A, 1, "manager"), LossWord.OTHER_MANAGER),
    (data_loss.not_the_same(A, 1, "incarnation"), LossWord.HOME_PUT_BACK),
    (data_loss.not_the_same(A, 1, "beyond"), LossWord.HOME_PUT_BACK),
]


@pytest.mark.parametrize(("text", "word"), SAID)
def test_a_loss_begins_with_its_word_in_the_error_and_in_the_log(
    text: str, word: LossWord, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DataLoss) as raised:
        Losses(strict=True).found("key", text)
    assert str(raised.value).startswith(f"MQ_ERROR_MESSAGE_ALREADY_RECEIVED (0xC00E001D): {word}: ")
    Losses(strict=False).found("key", text)
    assert f"data loss: {word}: " in caplog.text
    assert f": {word}: " in str(
        cause_of(PySparkException(f"x\nposthouse.spark.data_loss.DataLoss: {raised.value}\n"))
    )


def test_an_old_checkpoint_has_its_word(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLoss, match=f": {LossWord.OLD_CHECKPOINT}: group g of .*--allow-loss"):
        check_position(A, 1, 2, "g")
    check_position(A, 2, 2, "g")
    Losses(strict=True).repeats({A: 1}, {A: 2}, "g")
    assert f"{LossWord.READ_AGAIN}: {A}: " in caplog.text


def test_every_word_is_listed_and_no_other() -> None:
    listed = re.findall(r"^\| `(POSTHOUSE_[A-Z_]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert listed == [str(word) for word in LossWord]
