"""The functions of Spark that a read-only statement may call (decision 17).

All groups in which every function computes from its arguments alone. Of the group of odds and
ends only those named here: it is also the one with functions that call any method of Java.
Functions that come with packages of their own, and those that read files, are in no such group.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

_GROUPS = """
agg array bitwise collection conditional conversion csv datetime generator hash json lambda map math
predicate sketch string struct url variant vector window xml
"""
_ODDS_AND_ENDS = """
aes_decrypt aes_encrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count
current_user hmac monotonically_increasing_id raise_error session_user spark_partition_id
try_aes_decrypt typeof user uuid version
"""
_TABLE_FUNCTIONS = """
explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack
variant_explode variant_explode_outer
"""
GROUPS: Final = frozenset(f"{name}_funcs" for name in _GROUPS.split())
ODDS_AND_ENDS: Final = frozenset(_ODDS_AND_ENDS.split())
TABLE_FUNCTIONS: Final = frozenset(_TABLE_FUNCTIONS.split())
ARGUMENTS_MAX: Final = {"from_xml": 2, "schema_of_xml": 1}
"""Functions without their options: one of those names a file to validate against."""
# Names that the parser makes up for syntax of its own.
_SYNTAX: Final = frozenset({"!=", "<>", "!"})
_BUILT_IN: Final = (["builtin"], ["system", "builtin"])


_known: dict[str, frozenset[str]] = {}


def allowed_functions(spark: SparkSession) -> frozenset[str]:
    """The names, in small letters; those of one version of Spark are asked for once."""
    if spark.version not in _known:
        _known[spark.version] = _asked(spark)
    return _known[spark.version]


def _asked(spark: SparkSession) -> frozenset[str]:
    jvm: Any = spark.sparkContext._jvm
    infos = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    named = {str(info.getName()).lower() for info in infos if info.getGroup() in GROUPS}
    return frozenset(named | ODDS_AND_ENDS | _SYNTAX)


def plain_name(parts: list[str]) -> str:
    """The name of a built-in function, empty for one that is not."""
    *place, name = (part.lower() for part in parts)
    return name if not place or place in _BUILT_IN else ""
