"""A Spark session with a Java and settings that suit queues."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from posthouse.model.errors import InvalidParameter
from posthouse.model.extras import install
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
REMOTE: Final = "SPARK_REMOTE"
CONNECT: Final = "sc://"
# gRPC ends one child process in fifty before it starts its program, unless it is told to leave
# them alone. It reads this when it is imported first.
GRPC_FORKS: Final = "GRPC_ENABLE_FORK_SUPPORT"
# Settings that a session may change while Spark runs, so that one of Spark Connect has them too.
SESSION_SETTINGS: Final = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",  # texts of others hold no ${env:...}
}


class SparkMissing(ImportError):
    """PySpark, pyarrow or deltalake is not installed."""

    def __init__(self, name: str, extra: str = "spark") -> None:
        super().__init__(f"{name} is not installed. Install it with: {install(extra)}", name=name)


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


def session(
    name: str = "posthouse", master: str | None = None, remote: str | None = None, **conf: Any
) -> SparkSession:
    """A Spark session, on `local[*]` unless told otherwise; in a job where its server runs Spark.

    `remote` is a Spark Connect server (`sc://host:15002`), else SPARK_REMOTE where no master is
    named. Its settings are the server's own, but for those that a session may change.

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

    chosen = remote_of(master or os.environ.get("POSTHOUSE_MASTER"), remote)
    if chosen is not None:
        return _connected(name, chosen, conf)
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
    with _without_remote():
        made = builder.getOrCreate()
    from posthouse.spark.queries.decoding import register_functions

    register_functions(made)
    return made


def remote_of(master: str | None, remote: str | None) -> str | None:
    """The Spark Connect server to use, if any: a master that is named comes before SPARK_REMOTE."""
    if master is not None and remote is not None:
        raise InvalidParameter(
            "both a master and a Spark Connect server are named", "Name one of them."
        )
    found = remote or (None if master is not None else os.environ.get(REMOTE))
    if found is not None and not found.startswith(CONNECT):
        raise InvalidParameter(
            f"{found} is not the address of a Spark Connect server",
            "Write it as sc://host:15002.",
        )
    return found


def not_over_connect(what: str) -> InvalidParameter:
    """What is raised where a pipeline needs a Spark whose Java is in this process."""
    return InvalidParameter(
        f"{what} does not run over Spark Connect",
        f"Name a master, such as local[*], which comes before {REMOTE}. `archive` and `sql` run "
        "over Spark Connect.",
    )


def classic(spark: SparkSession, what: str) -> SparkSession:
    """The session, unless it is one of Spark Connect: then the pipeline is refused."""
    if is_connect(spark):
        raise not_over_connect(what)
    return spark


def _connected(name: str, remote: str, conf: Mapping[str, Any]) -> SparkSession:
    """A session of a Spark Connect server."""
    os.environ.setdefault(GRPC_FORKS, "0")
    _require("pandas", "grpc", "grpc_status", "google.rpc", "zstandard", extra="connect")
    from pyspark.sql import SparkSession

    from posthouse.spark.queries.decoding import register_functions

    made = SparkSession.builder.appName(name).remote(remote).getOrCreate()
    for key, value in {**SESSION_SETTINGS, **conf}.items():
        made.conf.set(key, _text(value))
    register_functions(made)
    return made


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has no Java in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


@contextmanager
def _without_remote() -> Iterator[None]:
    """PySpark refuses a master where SPARK_REMOTE is set; here the master that is named counts."""
    kept = os.environ.pop(REMOTE, None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ[REMOTE] = kept


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
        **SESSION_SETTINGS,
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
