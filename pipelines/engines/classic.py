"""Starts a classic Spark session in this process, without Spark's console output."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pipelines.engines.frames import builds_classic, set_functions
from pipelines.engines.jars import bucket_jars, cache_folder, engine_jars, error_line
from pipelines.engines.names import WITHOUT_JAVA, check_java, check_launch, java_version
from pipelines.engines.settings import hadoop_settings, local_settings, shipped_settings
from pipelines.engines.workers import in_thread
from pipelines.errors import EngineError, first_line

NO_JVM: Final = (Py4JError, ConnectionError)
"""The exceptions of a call whose JVM has ended."""
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
_WRITER_SECONDS = 60
"""Seconds after the creation of a partial file in which no other process creates one. Most JVMs end sooner."""
_LAUNCH_SECONDS = 30
"""Seconds for which an interrupted program waits for the JVM that it is launching."""
_STALE_SECONDS = 86400
"""Seconds after which a partial file is removed, because the JVM that wrote the file must have been killed."""
# Waits until the JVM has ended, which is after the end of this program. Then renames the partial file to the archive.
_KEEPER = """
import os, sys, time
process, partial, file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for _ in range(86400):
    try:
        os.kill(process, 0)
    except OSError:
        break
    time.sleep(1)
if os.path.exists(partial) and os.path.getsize(partial):
    os.replace(partial, file)
"""


def running_session() -> SparkSession | None:
    """Returns the classic session of the notebook or ``spark-submit`` job that runs this program, or None if none does.

    If the ``spark-submit`` job has no session, the function creates one.

    Raises:
        EngineError: The program's JVM has ended.
    """
    session = _active_session() if _has_jvm() else None
    if session is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted_session()
    return session


def _has_jvm() -> bool:
    """Returns whether PySpark has launched a JVM in this process, or was started by ``spark-submit`` and is connected.

    Without a JVM, a `SparkConf` has no settings.

    Raises:
        EngineError: The JVM has ended. PySpark launches no second JVM.
    """
    try:
        return SparkConf().contains("spark.master")
    except NO_JVM as error:
        cure = "start a new Python process (in a notebook: restart it)"
        raise EngineError(f"the JVM of Spark has ended; {cure}") from error


def _active_session() -> SparkSession | None:
    was_classic = builds_classic()
    set_functions(is_classic=True)  # in Connect mode PySpark would return a session of Sail
    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        return None
    finally:
        set_functions(is_classic=was_classic)
    return session if is_running(session) else None


def is_running(spark: SparkSession) -> bool:
    """Returns whether the context of a classic session has not been stopped, and its JVM has not ended."""
    try:
        return spark.sparkContext.startTime > 0
    except (AttributeError, *NO_JVM):  # a stopped context has no JVM object
        return False


def start_classic(
    scratch: Path, closing: ExitStack, say: Callable[[str], None], scheme: str | None = None, *, is_small: bool = False
) -> SparkSession:
    """Starts a local Spark with Delta Lake and GraphFrames, which ``closing`` stops.

    ``scratch`` is the session's private folder. The other arguments are those of `session.open_session`.

    Raises:
        EngineError: Java is missing or has an unsupported version, jars are missing, an environment variable does not
            fit, or the JVM does not start.
    """
    check_java()
    check_launch()
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
    closing.callback(_stop, session)
    return session


def _stop(session: SparkSession) -> None:
    with suppress(*NO_JVM):
        session.stop()


def _start_context(conf: SparkConf, archive: ClassArchive) -> SparkContext:
    """Starts the JVM; a temporary file receives the output of Spark, Ivy and the launcher."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            # A process has one JVM: an earlier session may have launched it.
            gateway = None
            if not _has_jvm():
                gateway = _launched(conf, {"stdout": log, "stderr": log})
                archive.keep_after(gateway.proc.pid)
            return SparkContext(conf=conf, gateway=gateway)
        except (PySparkRuntimeError, *NO_JVM) as error:  # the JVM ends before or after it answers
            log.seek(0)
            raise EngineError(f"Spark does not start: {error_line(log)}; correct the cause, {WITHOUT_JAVA}") from error
        except ValueError as error:  # PySpark allows one context
            raise EngineError(
                f"Spark does not start: {first_line(error)}; pass a session of the existing context: "
                "spark=SparkSession(context)"
            ) from error


def _launched(conf: SparkConf, streams: Mapping[str, Any]) -> Any:  # noqa: ANN401 - PySpark leaves it untyped
    """Launches the JVM, and returns its gateway; if the program is interrupted, ends the JVM.

    An interruption of ``launch_gateway`` removes the folder into which the new JVM writes its port. This write then
    fails, and the JVM never ends. So the launch runs in a thread, which receives no signals.
    """
    launched = in_thread(partial(launch_gateway, conf, dict(streams)))
    try:
        return launched.result()
    except BaseException:
        with suppress(PySparkRuntimeError, TimeoutError):
            launched.result(_LAUNCH_SECONDS).proc.kill()
        raise


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
    SparkContext.getSystemProperty("spark.master")  # connects to the JVM, from which SparkConf reads the settings
    given = dict(SparkConf().getAll())
    for key, value in shipped_settings().items():
        if key not in given and key.startswith(("spark.sql.", "spark.databricks.", "spark.python.")):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    if "spark.sql.shuffle.partitions" not in given:
        session.conf.set("spark.sql.shuffle.partitions", str(session.sparkContext.defaultParallelism))
    return session


@dataclass(frozen=True)
class ClassArchive:
    """The class archive (dynamic class data sharing, JDK 17 or newer) of one class path and one Java.

    A JVM maps the archived classes of Spark into memory instead of parsing them. The first local Spark writes the
    archive when its JVM exits. With the archive, Spark starts in 2.9 CPU seconds instead of 6.4. An audit in a new JVM
    takes 20 CPU seconds instead of 24.

    Attributes:
        file: The archive, which may not exist yet.
        partial: The file that the JVM of this session writes when it exits; None if the JVM writes no archive.
    """

    file: Path
    partial: Path | None

    @classmethod
    def of(cls, folder: Path, jars: Sequence[Path], java: str) -> ClassArchive:
        """Returns the archive in ``folder`` for Spark with the additional ``jars``; ``java`` is a Java's version."""
        names = "\n".join([java, sys.prefix, *map(str, jars)])
        file = folder / f"classes-{blake2b(names.encode(), digest_size=8).hexdigest()}.jsa"
        return cls(file, None if file.exists() or sys.platform == "win32" else _new_partial(file))

    @property
    def option(self) -> str:
        """The JVM option that reads or writes the archive, or an empty string."""
        if self.partial is not None:
            return f'"-XX:ArchiveClassesAtExit={self.partial}"'
        return f'"-XX:SharedArchiveFile={self.file}"' if self.file.exists() else ""

    def keep_after(self, process: int) -> None:
        """Starts a child process that moves `partial` to `file` when the JVM with id ``process`` has ended."""
        if self.partial is not None:
            subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-I", "-S", "-c", _KEEPER, str(process), str(self.partial), str(self.file)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip


def _new_partial(file: Path) -> Path | None:
    """Creates an empty partial file of an archive, unless another process did so a minute ago; removes stale ones."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for other in file.parent.glob(f"{file.stem}.*.part"):
            age = time.time() - other.stat().st_mtime
            if age < _WRITER_SECONDS:
                return None
            if age > _STALE_SECONDS:
                other.unlink()
        partial = file.with_suffix(f".{os.getpid()}.part")
        partial.touch()
    except OSError:
        return None
    return partial
