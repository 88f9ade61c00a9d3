"""Java for tests: what they run in it is short, and half of that would be its start.

Java compiles what runs often, and again what runs very often: the second time pays for programs
that last. It reads some ten thousand classes of Spark from their archives and checks them: a
picture of them in memory is made once and kept in the virtual environment.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

OPTIONS = "JDK_JAVA_OPTIONS"  # what every `java` adds to its own words
# Spark's launcher reads what Java says on standard output: warnings go elsewhere.
SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=warning:stderr"
MAKE_S = 300.0
# What most tests do in Spark; classes that are not loaded here are read as ever.
USUAL = """
import sys
from pyspark import SparkContext
from posthouse.spark import session

picture, folder = sys.argv[1:]
kept = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={picture}"}
spark = session("usual", "local[2]", **kept)
spark.range(20).selectExpr("id", "id % 3 AS k").write.parquet(folder + "/table")
table = spark.read.parquet(folder + "/table")
table.groupBy("k").count().orderBy("k").collect()
spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
stream = spark.readStream.schema(table.schema).parquet(folder + "/table").writeStream
stream = stream.format("parquet").option("checkpointLocation", folder + "/at")
stream.trigger(availableNow=True).start(folder + "/copy").awaitTermination()
spark.stop()
java = SparkContext._gateway.proc
java.stdin.close()
java.wait()
"""


def short_lived() -> None:
    """For every JVM that is started from here on."""
    os.environ.setdefault(OPTIONS, SHORT)


def is_wanted(item: pytest.Item) -> bool:
    """Whether a test starts Spark, or finds it started."""
    fixtures = getattr(item, "fixturenames", ())
    return "spark" in item.path.name or not {"spark", "spark_cluster"}.isdisjoint(fixtures)


@cache
def pictured() -> None:
    """The same with the picture, where this Java can make one."""
    path = _place()
    if path is None or os.environ.get(OPTIONS) != SHORT:
        return
    with path.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker makes it, others wait
        if not path.exists():
            _make(path)
    if path.exists():
        os.environ[OPTIONS] = f"{SHORT} -XX:SharedArchiveFile={path}"


def _place() -> Path | None:
    """Where the picture of this Java and this Spark is kept; None: they do not allow for one."""
    try:
        from posthouse.spark.java import java_home
        from posthouse.spark.worker_home import spark_home

        java, home = java_home(), spark_home()
    except (ImportError, RuntimeError):  # no Spark, no Java
        return None
    # The picture is laid over one that comes with Java.
    if home is None or not (java / "lib" / "server" / "classes.jsa").exists():
        return None
    words = [str(java.resolve()), (java / "release").read_text(), str((home / "jars").resolve())]
    words += sorted(jar.name for jar in (home / "jars").iterdir())
    return Path(sys.prefix, f"spark-{sha256(repr(words).encode()).hexdigest()[:16]}.jsa")


def _make(path: Path) -> None:
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", USUAL, str(new), folder],
            capture_output=True,
            text=True,
            timeout=MAKE_S,
            check=False,
        )
    if done.returncode:  # everything works without it, more slowly
        warnings.warn(f"no picture of Spark for Java: {done.stderr[-2000:]}", stacklevel=1)
    elif new.exists():
        new.rename(path)


if __name__ == "__main__":  # `make test` does this while it looks at types
    short_lived()
    pictured()
