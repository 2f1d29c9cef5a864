"""Runs ``roundtable run`` in the session of ``spark-submit``; the arguments are those of ``roundtable run``.

    spark-submit --properties-file conf/spark/cluster.conf pipelines/jobs/run.py FILE --store DIR

Roundtable must be installed on the driver's machine. The driver sends package `udfs` to the executors, which need
numpy, pandas and pyarrow. The store must be a folder that driver and executors share, an address in a bucket or in
HDFS, or ``catalog.schema``.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pipelines.cli import main


def run() -> None:
    """Runs ``roundtable run --engine spark`` with the arguments in ``sys.argv``, and exits with its exit code."""
    sys.argv[1:] = ["run", "--engine", "spark", *sys.argv[1:]]
    try:
        main()
    finally:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


if __name__ == "__main__":
    run()
