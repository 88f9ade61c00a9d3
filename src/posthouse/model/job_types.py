"""Types of jobs that the Spark queue server takes; every other number is the application's own."""

from typing import Final

SQL: Final = 0x5101  # the file is one SELECT
PIPELINE: Final = 0x5102  # the file is JSON that names a pipeline and its arguments
PYSPARK: Final = 0x5103  # the file is a Python program (decision 17)
SPARK_TYPES: Final = (SQL, PIPELINE, PYSPARK)
JOB_TYPE_MAX: Final = 0xFFFE

JOB_TYPE_NAMES: Final = {SQL: "sql", PIPELINE: "pipeline", PYSPARK: "pyspark"}


def job_type_name(number: int) -> str:
    """A type for people."""
    return JOB_TYPE_NAMES.get(number, str(number))


def parse_job_type(text: str) -> int:
    """A type by its word or number; raises `ValueError`."""
    word = text.strip().lower()
    for number, name in JOB_TYPE_NAMES.items():
        if word == name:
            return number
    try:
        number = int(word, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= JOB_TYPE_MAX:
        words = ", ".join(JOB_TYPE_NAMES.values())
        raise ValueError(f"a job type is 0 to {JOB_TYPE_MAX}, or {words}")
    return number
