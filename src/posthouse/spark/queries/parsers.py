"""Spark's own parser: that of a session, or one in a Java of this process alone.

A session of Spark Connect has no Java here. Its statements are parsed by the classes of the Spark
that is installed, and the session gets the settings with which they were parsed: so that the server
reads in a text what was read here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from posthouse.spark.java import JavaNotFound
from posthouse.spark.sessions import SparkMissing, is_connect, prepare_environment

# What changes how a text is read; the values are those of a parser without a session.
PARSED_WITH: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
}


class Parser(NamedTuple):
    """A parser, and the Java that it lives in."""

    jvm: Any
    parser: Any


def parser_of(spark: SparkSession) -> Parser:
    """The parser for the statements of a session."""
    if is_connect(spark):
        return _alone()
    jvm: Any = spark.sparkContext._jvm
    inner: Any = spark
    return Parser(jvm, inner._jsparkSession.sessionState().sqlParser())


@cache
def _alone() -> Parser:
    """A Java that runs no Spark, and ends with this process."""
    try:
        from pyspark import java_gateway

        prepare_environment("local")
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
        launch: Callable[[], Any] = java_gateway.launch_gateway
        gateway = launch()
    except (ImportError, JavaNotFound) as error:
        raise SparkMissing(
            "what parses statements for Spark Connect (PySpark with Java)"
        ) from error
    finally:
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    jvm = gateway.jvm
    return Parser(jvm, jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser())
