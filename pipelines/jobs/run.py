"""``roundtable run`` as a Spark job: the same arguments, on the session of the submitter.

    spark-submit --properties-file conf/spark/cluster.conf pipelines/jobs/run.py FILE --store DIR

The program has to be installed where the driver runs; it sends executors package `udfs`, for which they need numpy,
pandas and pyarrow. The store's folder has to be one that driver and executors share; or it is an address in a bucket or
in HDFS, or ``catalog.schema``.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pipelines.cli import main


def run() -> None:
    """Runs the scenario of the arguments on engine spark, and exits with the program's code."""
    sys.argv[1:] = ["run", "--engine", "spark", *sys.argv[1:]]
    try:
        main()
    finally:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


if __name__ == "__main__":
    run()
