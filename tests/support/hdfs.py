"""Starts an HDFS server for tests: Hadoop's minicluster, in a separate JVM."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import pyspark

from pipelines.engines.jars import hadoop_jars
from support.jvm import JVM

_EXCLUDED = "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime,org.slf4j:*"
_OF_SPARK = ("hadoop-client-*.jar", "slf4j-api-*.jar", "log4j-*.jar", "jcl-over-slf4j-*.jar")
_START_SECONDS = 180


@contextmanager
def hdfs_server(folder: Path) -> Iterator[str]:
    """Starts the server, and yields the address of an empty folder in HDFS.

    Args:
        folder: The local folder in which the server stores its files.

    Raises:
        EngineError: The jars of the server cannot be downloaded.
    """
    jars = hadoop_jars("hadoop-client-minicluster", (), _EXCLUDED, lambda: None)
    jars += [jar for pattern in _OF_SPARK for jar in Path(pyspark.__path__[0], "jars").glob(pattern)]
    program = Path(__file__).with_name("MiniDfs.java")
    command = ["java", "-Xmx512m", "-cp", os.pathsep.join(map(str, jars)), str(program), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, **JVM},
    ) as server:  # fmt: skip
        try:
            yield f"hdfs://127.0.0.1:{_port(server)}/studies"
        finally:
            server.kill()


def _port(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    lines, output = SimpleQueue[str](), server.stdout

    def read() -> None:
        for line in output:
            lines.put(line)
        lines.put("the server has ended")

    Thread(target=read, daemon=True).start()
    try:
        while not (line := lines.get(timeout=_START_SECONDS)).startswith("port "):
            assert line != "the server has ended", line
    except Empty:
        raise AssertionError(f"the server says nothing for {_START_SECONDS} s") from None
    return line.split()[1]
