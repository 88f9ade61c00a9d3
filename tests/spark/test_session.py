"""The session that users get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from setuptools import find_packages

from posthouse.model.extras import install
from posthouse.spark import SparkMissing, java
from posthouse.spark import session as session_of
from posthouse.spark.sessions import is_local, settings, sockets_are_safe
from posthouse.spark.worker_home import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROUGHT = """
from posthouse.spark import java, session
java.USUAL_FOLDERS = ()
spark = session("brought", "local[1]")
assert spark.range(7).count() == 7
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
spark.stop()
"""
LIGHT = """
import sys
import posthouse, posthouse.spark, pyspark_posthouse
heavy = {"pyspark", "pyarrow", "numpy", "pandas", "asyncio", "http.client"} & set(sys.modules)
assert not heavy, heavy
"""
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
import pyspark_posthouse, posthouse.spark
assert not hasattr(pyspark_posthouse, "DefaultSource")
assert not hasattr(pyspark_posthouse, "whatever")
try:
    posthouse.spark.session()
except posthouse.spark.SparkMissing as error:
    print(error)
"""


def run(code: str, **environment: str) -> str:
    """What a program of its own prints."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_session_runs_python_workers_of_this_python(spark: SparkSession) -> None:
    (found,) = spark.sparkContext.parallelize([1], 1).map(lambda _: sys.executable).collect()
    assert found == sys.executable


def test_workers_import_what_is_installed(spark: SparkSession) -> None:
    """Not the archive in Spark's home: it has to be compiled by every process."""
    import pyspark

    def place(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    (found,) = spark.sparkContext.parallelize([1], 1).map(place).collect()
    assert found == pyspark.__file__


def test_a_home_for_spark_is_made_only_where_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    home = spark_home()
    assert home is not None
    assert home == spark_home()
    assert (home / "bin" / "spark-submit").exists()
    assert not (home / "python").exists()
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    assert spark_home() is None
    monkeypatch.delenv("PYSPARK_PYTHON")
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert spark_home() is None
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/elsewhere")
    assert spark_home() is None


def test_a_session_has_the_settings(spark: SparkSession) -> None:
    chosen = settings(spark.sparkContext.master)
    chosen["spark.sql.shuffle.partitions"] = "2"  # the fixture's own word wins
    assert {key: spark.conf.get(key) for key in chosen} == chosen


def test_java_does_not_check_arrow_a_second_time(spark: SparkSession) -> None:
    machine = spark.sparkContext._jvm
    assert machine is not None
    assert machine.System.getProperty("arrow.enable_unsafe_memory_access") == "true"


def test_a_session_is_the_one_that_is_there(spark: SparkSession) -> None:
    assert session_of("another").sparkContext is spark.sparkContext


def test_without_java_the_package_brings_one(tmp_path: Path) -> None:
    """As on a machine that has none: nothing on the path but a shell and what scripts use."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "bash", "env", "dirname", "basename", "uname", "ps", "rm", "sed", "find"):
        for folder in ("/usr/bin", "/bin"):
            if Path(folder, name).exists():
                (programs / name).symlink_to(Path(folder, name))
                break
    home = run(BROUGHT, PATH=str(programs), JAVA_HOME="", XDG_CACHE_HOME=str(tmp_path / "cache"))
    brought = java.brought_along()
    assert brought is not None
    assert Path(home.strip()).resolve() == brought.resolve()


def test_the_package_that_spark_looks_for_is_installed_too() -> None:
    root = Path(__file__).parent.parent.parent
    packages = set(find_packages(str(root / "src")))
    assert {"posthouse.spark", "pyspark_posthouse"} <= packages


def test_importing_costs_no_spark() -> None:
    run(LIGHT)


def test_without_spark_the_remedy_is_named() -> None:
    assert install("spark") in run(WITHOUT_SPARK)


def test_the_error_names_what_is_missing() -> None:
    assert str(SparkMissing("pyarrow")).startswith("pyarrow is not installed. Install")


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://a:7077", False),
        (None, False),
    ],
)
def test_only_a_local_master_keeps_to_this_machine(master: str | None, local: bool) -> None:
    assert is_local(master) == local
    assert ("spark.driver.bindAddress" in settings(master)) == local
    assert ("spark.sql.streaming.checkpointFileManagerClass" in settings(master)) == local


def test_sockets_need_a_folder_with_a_short_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp")
    assert sockets_are_safe()
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp/" + "x" * 60)
    assert not sockets_are_safe()
    assert settings("local")["spark.python.unix.domain.socket.enabled"] == "false"


def test_the_public_names_are_functions_whatever_was_imported_before() -> None:
    """A module of the same name would be in the way once it is loaded."""
    import posthouse.spark as package

    folder = Path(str(package.__file__)).parent
    modules = {file.stem for file in folder.glob("*.py")}
    assert set(package.__all__) & modules == set()
