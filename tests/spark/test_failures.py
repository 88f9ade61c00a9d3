"""Errors that come out of Spark as the text of a trace."""

from __future__ import annotations

from pyspark.errors import PySparkException

from posthouse.client.errors import ServerUnreachable
from posthouse.model.errors import QueueNotFound
from posthouse.spark.failures import LENGTH_MAX, SparkFailed, cause_of

TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance read data
Traceback (most recent call last):
  File "worker.py", line 1, in main
posthouse.model.errors.{}

\tat org.apache.spark.Executor.run(Executor.scala:1)
"""


def trace(line: str) -> PySparkException:
    return PySparkException(TRACE.format(line))


def test_a_refusal_is_the_error_that_it_was() -> None:
    said = str(QueueNotFound("there is no queue .\\private$\\a"))
    found = cause_of(trace(f"QueueNotFound: {said}"))
    assert isinstance(found, QueueNotFound)
    assert str(found) == said


def test_a_server_that_does_not_answer_is_told_so() -> None:
    error = PySparkException("x\nposthouse.client.errors.ServerUnreachable: nobody is there. Look.")
    found = cause_of(error)
    assert isinstance(found, ServerUnreachable)
    assert "nobody is there" in str(found)


def test_anything_else_is_spark_s_first_paragraph() -> None:
    found = cause_of(
        PySparkException("[PATH_NOT_FOUND] Path does\nnot exist" + "x" * 999 + "\n\nat")
    )
    assert isinstance(found, SparkFailed)
    assert "[PATH_NOT_FOUND] Path does not exist" in str(found)
    assert len(found.cause) <= LENGTH_MAX + 20
