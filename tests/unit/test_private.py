"""The program uses PySpark by its public API: no private attribute, but for those that have no public way."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PRIVATE = re.compile(
    r"\b(?:SparkContext|spark|session|frame|client|classic|jvm)\._\w+|\b_(?:jvm|jdf|jsc|jsparkSession|gateway)\b"
    r"|pyspark\.sql\.(?:connect|classic)\.[\w.]+"
)
ALLOWED = {
    # How a channel with options of its own becomes a session.
    "pyspark.sql.connect.client": 1,
    "pyspark.sql.connect.session": 1,
    # Sail 0.7 frees no parser of an expression: 85 KB each, so they are sent parsed (`engines.sail_expressions`).
    # Only a request shows whether Sail's answer was whole (`engines.remote.WholeAnswers`).
    "pyspark.sql.connect.proto": 2,
    "pyspark.sql.connect.proto.types_pb2": 1,
}


def test_no_private_part_of_pyspark() -> None:
    found: Counter[str] = Counter()
    for file in (*ROOT.glob("pipelines/**/*.py"), *ROOT.glob("udfs/**/*.py")):
        for line in file.read_text("utf-8").splitlines():
            if not line.lstrip().startswith("#"):
                found.update(one for one in _PRIVATE.findall(line) if one != "session._closing")
    assert dict(found) == ALLOWED
