"""What a driver does whose executors are elsewhere: `python -m tests.any_spark.far_workers ...`.

Its arguments are an address, a token file of the driver's, a folder of the driver's and a master.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import functions as F

from posthouse.spark import archive, session

QUEUE = ".\\private$\\far"
NEAR = ".\\private$\\near"
ANSWERS = ".\\private$\\answers"


def refusal(work: Any) -> str:
    """Why something is refused."""
    try:
        work()
    except Exception as error:
        return str(error)
    return "not refused"


def main(url: str, token_file: str, folder: str, master: str) -> None:
    """Reads with a token from the environment, sends with one from --files, archives."""
    token = os.environ["POSTHOUSE_TOKEN"]
    spark = session(
        "far",
        master,
        **{
            "spark.executorEnv.POSTHOUSE_TOKEN": token,
            "spark.files": token_file,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
        },
    )
    context = spark.sparkContext
    mine = Path(folder, "of the driver")
    mine.touch()
    path = str(mine)
    seen = context.parallelize(range(8), 8).map(lambda _: Path(path).exists()).distinct().collect()
    access = {"url": url, "tokenFile": "env:POSTHOUSE_TOKEN"}
    reader = spark.read.format("posthouse").options(**access, queue=QUEUE, minPartitions=4)
    wrong = spark.read.format("posthouse").options(url=url, tokenFile=token_file, queue=QUEUE)
    answers = spark.range(20).select(
        F.concat(F.lit("answer "), F.col("id").cast("string")).cast("binary").alias("body")
    )
    sink = answers.write.format("posthouse").mode("append")
    sink.options(url=url, tokenFile="files:token", queue=ANSWERS).save()

    def archived(queue: str, lake: str, **more: Any) -> int:
        token = "env:POSTHOUSE_TOKEN"
        return archive(
            queue, lake, url=url, token_file=token, spark=spark, consume=True, **more
        ).messages

    local = refusal(lambda: archived(NEAR, str(Path(folder, "lake"))))
    read = reader.load().count()
    unseen = refusal(lambda: wrong.load().count())
    names = [name for name in os.environ if name.startswith("STORE_") and name != "STORE_URL"]
    storage = {name.removeprefix("STORE_").lower(): os.environ[name] for name in names}
    far = os.environ["STORE_URL"]
    done = archived(QUEUE, far, checkpoint=Path(folder, "checkpoint"), storage_options=storage)
    found = {
        "workers": len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1,  # type: ignore[union-attr]
        "seen_by_workers": seen,
        "read": read,
        "token_path": unseen,
        "local_lake": local,
        "archived": done,
        "in_lake": DeltaTable(far, storage_options=storage).to_pyarrow_table().num_rows,
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
