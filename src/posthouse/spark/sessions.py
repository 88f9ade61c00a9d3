"""A Spark session with a Java and settings that suit queues."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

from posthouse.spark.java import java_home
from posthouse.spark.quiet_daemon import MODULE as DAEMON
from posthouse.spark.worker_home import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A unix-domain socket's name has some hundred bytes; Spark adds a file name to the folder.
SOCKET_FOLDER_MAX: Final = 60
RENAMING_CHECKPOINTS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# Columns that come from Python are whole: pyarrow made them. Checking the bounds of every value
# again is an eighth of what Java does with a row.
UNCHECKED_ARROW: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)


class SparkMissing(ImportError):
    """PySpark, pyarrow or deltalake is not installed."""

    def __init__(self, name: str, extra: str = "spark") -> None:
        remedy = f"pip install 'posthouse[{extra}]'"
        super().__init__(f"{name} is not installed. Install it with: {remedy}", name=name)


def require_spark() -> None:
    """Raises SparkMissing, with the remedy, where something that Spark needs is not installed."""
    _require("pyspark", "pyarrow", "numpy", extra="spark")


def require_lake() -> None:
    """Raises SparkMissing, with the remedy, where something that lakes need is not installed."""
    _require("pyarrow", "deltalake", extra="lake")


def require_arrow() -> None:
    """Raises SparkMissing, with the remedy, where tables of messages cannot be read at all."""
    _require("pyarrow", extra="lake")


def _require(*names: str, extra: str) -> None:
    for name in names:
        try:
            __import__(name)
        except ImportError as error:
            raise SparkMissing(error.name or name, extra) from error


def session(name: str = "posthouse", master: str | None = None, **conf: Any) -> SparkSession:
    """A Spark session, on `local[*]` unless told otherwise; in a job where its server runs Spark.

    Finds Java or brings one along, lets workers run this Python, and talks to them over
    unix-domain sockets. Statements can call `decode_message` and `decode_text`. With a local master
    everything listens on loopback, and checkpoints are written with a rename, which is atomic on a
    local disk and quicker: for checkpoints in an object store set
    `spark.sql.streaming.checkpointFileManagerClass` back. `conf` has Spark's own names and wins:
    `session("x", **{"spark.sql.shuffle.partitions": 8})`.
    """
    require_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # started by spark-submit, which has a Java
    usual = os.environ.get("POSTHOUSE_MASTER") or "local[*]"  # set for programs that are jobs
    wanted = master or conf.get("spark.master") or (None if submitted else usual)
    if not submitted and SparkContext._gateway is None:
        prepare_environment(wanted)
    builder = SparkSession.builder.appName(name)
    if wanted is not None:
        builder = builder.master(wanted)
    for key, value in {**settings(wanted), **conf}.items():
        builder = builder.config(key, _text(value))
    made = builder.getOrCreate()
    from posthouse.spark.queries.decoding import register_functions

    register_functions(made)
    return made


def prepare_environment(master: str | None) -> None:
    """What the JVM and its workers take from the environment."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if "SPARK_HOME" not in os.environ and (home := spark_home()):
            os.environ["SPARK_HOME"] = str(home)


def settings(master: str | None) -> dict[str, str]:
    """The settings of `session` for a master."""
    chosen = {
        "spark.python.unix.domain.socket.enabled": _text(sockets_are_safe()),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.variable.substitute": "false",  # texts of others hold no ${env:...}
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.defaultJavaOptions": UNCHECKED_ARROW,
        "spark.executor.defaultJavaOptions": UNCHECKED_ARROW,
    }
    if is_local(master):
        chosen |= {
            "spark.python.daemon.module": DAEMON,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            "spark.sql.streaming.checkpointFileManagerClass": RENAMING_CHECKPOINTS,
        }
    return chosen


def is_local(master: str | None) -> bool:
    """Driver and executors are one process on this machine."""
    return master is not None and (master == "local" or master.startswith("local["))


def sockets_are_safe() -> bool:
    """Unix-domain sockets to Python workers: where there are some, with room for a name."""
    return os.name == "posix" and len(os.fsencode(tempfile.gettempdir())) <= SOCKET_FOLDER_MAX


def _text(value: object) -> str:
    """Spark's spelling of a value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
