"""A scenario as a job of ``spark-submit``, on a cluster of two workers that Spark starts for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from support.jvm import JVM

import pipelines as rt
from pipelines.engines.jars import engine_jars
from pipelines.engines.session import Session
from pipelines.engines.settings import read_settings

PROJECT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
SCENARIO = """name: small
protocol: {name: forwarding}
overlay: {links: [[A, B]]}
workload:
  subscriptions: [{at: B, round: 0, topic: t}]
  publications: [{at: A, round: 3, topic: t}]
time: {rounds: 20}
runs: {seeds: {count: 4}}
engine: sail
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_on_two_workers(sail: Session, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    zipped = tmp_path / "udfs.zip"
    subprocess.run([sys.executable, "-m", "zipfile", "-c", str(zipped), "udfs"], cwd=PROJECT, check=True)
    # The jars are there already: --jars instead of the settings' spark.jars.packages.
    settings = read_settings(PROJECT / "conf" / "spark" / "cluster.conf")
    assert settings.pop("spark.jars.packages").startswith("io.delta:delta-spark_")
    (tmp_path / "cluster.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    command = [
        str(SPARK / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", "--driver-memory", "1g",
        "--conf", "spark.executor.memory=1g", "--properties-file", str(tmp_path / "cluster.conf"),
        "--jars", ",".join(map(str, engine_jars(print))), "--py-files", str(zipped),
        str(PROJECT / "pipelines" / "jobs" / "run.py"), str(tmp_path / "s.yaml"), "--store", str(tmp_path / "store"),
        "--quiet",
    ]  # fmt: skip
    environment = {
        **os.environ, **JVM, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    environment.pop("SPARK_CONNECT_MODE_ENABLED", None)  # the mode of this process
    job = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert job.returncode == 0, job.stdout + job.stderr[-3000:]
    assert job.stdout.splitlines()[-1].startswith("valid: 4 runs, all guarantees hold")
    sail.activate()
    with rt.open_store(tmp_path / "store", sail.spark) as result:
        assert {row.engine for row in result.table("run").collect()} == {"spark"}
        assert sorted(row.run_id for row in result.table("delivery").collect()) == [0, 1, 2, 3]
