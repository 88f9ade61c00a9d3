"""Tries what the guard of statements has to refuse, over Spark Connect."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from posthouse.client.admin_http import BulkHttp
from posthouse.model.errors import InvalidParameter
from posthouse.spark import session
from posthouse.spark.queries.query import sql
from posthouse.spark.queries.tables import LiveTables
from tests.spark.sql_attacks import ATTACKS, spelled


def main(url: str, token_file: str, remote: str, secret: str) -> None:
    """Prints which attacks came through."""
    spark = session("attacks", remote=remote)
    options = {"url": url, "tokenFile": token_file}
    through = []
    with BulkHttp(url, token_file=token_file) as http, LiveTables(http, options) as tables:
        for pattern in ATTACKS:
            statement = spelled(pattern, Path(secret))
            try:
                sql(spark, statement, tables)
            except InvalidParameter:
                continue
            through.append(statement)
    print(json.dumps({"attacks": len(ATTACKS), "not_refused": through}))


if __name__ == "__main__":
    main(*sys.argv[1:])
