"""Starts a classic Spark session in this process, without Spark's console output."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pipelines.engines.class_archive import ClassArchive
from pipelines.engines.frames import CONNECT_MODE, set_functions
from pipelines.engines.jars import bucket_jars, cache_folder, engine_jars, error_line
from pipelines.engines.names import WITHOUT_JAVA, check_java, java_version
from pipelines.engines.settings import hadoop_settings, local_settings, shipped_settings
from pipelines.errors import EngineError

_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"


def running_session() -> SparkSession | None:
    """Returns the classic session of the notebook or ``spark-submit`` job that runs this program, or None if none does.

    If the ``spark-submit`` job has no session, the function creates one.
    """
    if SparkContext._active_spark_context is not None:
        was_classic = CONNECT_MODE not in os.environ
        set_functions(is_classic=True)  # in Connect mode PySpark would return a session of Sail
        try:
            return SparkSession.getActiveSession() or SparkSession(SparkContext._active_spark_context)
        finally:
            set_functions(is_classic=was_classic)
    return None if "PYSPARK_GATEWAY_PORT" not in os.environ else _submitted_session()


def is_running(spark: SparkSession) -> bool:
    """Returns whether the context of a classic session has not been stopped."""
    try:
        return spark.sparkContext.startTime > 0
    except AttributeError:  # a stopped context has no JVM object
        return False


def start_classic(
    scratch: Path, closing: ExitStack, say: Callable[[str], None], scheme: str | None = None, *, is_small: bool = False
) -> SparkSession:
    """Starts a local Spark with Delta Lake and GraphFrames.

    Args:
        scratch: The session's private folder.
        closing: Receives the callback that stops the session.
        say: Called with a progress message if jars have to be downloaded.
        scheme: The scheme of the store's address; None for a folder.
        is_small: Whether the load of the JVM is small; it then gets ``conf/spark/small.conf``.

    Raises:
        EngineError: Java is missing or has an unsupported version, jars are missing, or the JVM does not start.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    set_functions(is_classic=True)
    _quiet_errors()
    conf = SparkConf(loadDefaults=False)
    jars = [*engine_jars(say), *bucket_jars(scheme, say)]
    archive = ClassArchive.of(cache_folder(), jars, java_version())
    settings = {**hadoop_settings(), **local_settings(scratch, is_small=is_small)}
    settings["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
    settings[_JVM_OPTIONS] = f"{settings.get(_JVM_OPTIONS, '')} {archive.option}".strip()
    for key, value in settings.items():
        conf.set(key, value)
    session = SparkSession(_start_context(conf, archive))
    closing.callback(session.stop)
    return session


def _start_context(conf: SparkConf, archive: ClassArchive) -> SparkContext:
    """Starts the JVM; a temporary file receives the output of Spark, Ivy and the launcher."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            # A process has one JVM: an earlier session may have launched it.
            gateway, streams = None, {"stdout": log, "stderr": log}
            if not SparkContext._gateway:
                gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
                archive.keep_after(gateway.proc.pid)
            return SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError as error:
            log.seek(0)
            raise EngineError(f"Spark does not start: {error_line(log)}; correct the cause, {WITHOUT_JAVA}") from error


def _quiet_errors() -> None:
    """Prevents PySpark from printing each exception that it raises, and Py4J from printing a stack trace at Ctrl-C."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    for source in (None, "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(source).addFilter(_is_no_interruption)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    told = record.getMessage()
    return not any(what in told for what in ("while sending command", "while shutting down connection"))


def _submitted_session() -> SparkSession:
    """Creates the session of a ``spark-submit`` job. The submitter's settings override the settings of this program."""
    builder = SparkSession.builder
    SparkContext._ensure_initialized()  # SparkConf reads the submitter's settings from the JVM
    given = dict(SparkConf().getAll())
    for key, value in shipped_settings().items():
        if key not in given and key.startswith(("spark.sql.", "spark.databricks.", "spark.python.")):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    if "spark.sql.shuffle.partitions" not in given:
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
    return session
