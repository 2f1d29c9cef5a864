"""``spark-submit`` on a cluster of two workers that Spark starts for a test, and the processes of its executors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from pipelines.engines.jars import engine_jars
from pipelines.engines.settings import read_settings
from support.jvm import JVM

PROJECT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent


def submitted(folder: Path, *arguments: str) -> tuple[list[str], Mapping[str, str]]:
    """Returns the command that runs ``roundtable run`` with these arguments as a job, and its environment."""
    zipped = folder / "udfs.zip"
    subprocess.run([sys.executable, "-m", "zipfile", "-c", str(zipped), "udfs"], cwd=PROJECT, check=True)
    # The jars are there already: --jars instead of the settings' spark.jars.packages.
    settings = read_settings(PROJECT / "conf" / "spark" / "cluster.conf")
    assert settings.pop("spark.jars.packages").startswith("io.delta:delta-spark_")
    (folder / "cluster.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    command = [
        str(SPARK / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", "--driver-memory", "1g",
        "--conf", "spark.executor.memory=1g", "--properties-file", str(folder / "cluster.conf"),
        "--jars", ",".join(map(str, engine_jars(print))), "--py-files", str(zipped),
        str(PROJECT / "pipelines" / "jobs" / "run.py"), *arguments,
    ]  # fmt: skip
    environment = {
        **os.environ, **JVM, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    environment.pop("SPARK_CONNECT_MODE_ENABLED", None)  # the mode of this process
    return command, environment


def executors(job: int) -> Iterator[int]:
    """Yields the executors that a job has started, by their processes."""
    parents, found = {}, []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended meanwhile
            continue
    for executor in sorted(found):
        process = executor
        while process > 1 and process != job:
            process = parents.get(process, 0)
        if process == job:
            yield executor
