"""Opens an engine as a `Session`, the interface through which all other modules use the engine.

PySpark's functions (``F.expr`` ...) build columns either for classic Spark or for Spark Connect. The mode applies to
the whole process; `Session.activate` selects it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from threading import Event, Lock, current_thread, main_thread
from typing import TypeVar
from uuid import uuid4
from zipfile import ZipFile

# gRPC's handlers for forks break the start of a JVM in a process that has used Spark Connect.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import udfs
from pipelines.engines.classic import is_running, running_session, start_classic
from pipelines.engines.frames import builds_classic, set_functions
from pipelines.engines.names import (
    JVM_ENDED,
    WITH_TESTED_SPARK,
    AskedEngine,
    Engine,
    asked_engine,
    check_spark,
    chosen_engine,
)
from pipelines.engines.remote import connect_from_environment, engine_of, start_sail
from pipelines.errors import EngineError

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# With derived constraints, a union of checkpointed frames that drops a column fails ("key not found").
_SUITED = {"spark.sql.constraintPropagation.enabled": "false"}
_DESCRIPTION = "spark.job.description"
_NO_TAG = re.compile(r"[,\s]+")
"""A pattern of the characters that Spark Connect rejects in a tag."""
_PARTITIONS = "spark.sql.shuffle.partitions"
_LOCAL_MASTER = re.compile(r"local(\[.*\])?")
_N_THREADS = 6
_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder made in it is private
_ROOM_BYTES = 2 * 1024**3
# Waits until its standard input closes, which happens when this program ends or is killed. Then removes the folder. The
# script retries, because a JVM may still be writing.
_REMOVER = """
import shutil, sys, time
sys.stdin.read()
for _ in range(20):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.1)
"""
_SESSION_STOPPED = "the Spark session was stopped, or its JVM has ended; start a session, and pass it: spark=..."
_OF_PROCESS = ExitStack()
"""Resources that stay open until the process exits."""
atexit.register(_OF_PROCESS.close)
_Answer = TypeVar("_Answer")


@dataclass(eq=False)
class _Change:
    """A setting that a block of `Session.configured` has changed, and its value without this block."""

    spark: SparkSession
    key: str
    before: str | None


_CHANGES: list[_Change] = []
"""The changes of all open blocks, oldest first."""
_CHANGING = Lock()


@dataclass(frozen=True)
class Session(AbstractContextManager["Session"]):
    """An open engine with its resources; a context manager that closes them.

    Attributes:
        engine: ``spark`` (classic Spark), ``connect`` (a Spark Connect server) or ``local`` (embedded Sail).
        partitions: Number of partitions of an exchange.
        owns: Whether `close` stops the engine. False for a session that existed before `open_session`.
        scratch: A private folder for temporary files, which `close` removes.
    """

    _spark: SparkSession
    engine: Engine
    partitions: int
    owns: bool
    scratch: Path
    _closing: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)
    _stopped: Event = field(default_factory=Event, repr=False, compare=False)
    # The tag distinguishes the jobs of this session from jobs of other runs on the same PySpark session.
    _tag: str = field(default_factory=lambda: f"roundtable-{uuid4().hex}", repr=False, compare=False)

    @property
    def spark(self) -> SparkSession:
        """The PySpark session.

        Raises:
            EngineError: `close` has stopped the engine, the caller has stopped the session, or its JVM has ended.
        """
        if self._stopped.is_set():
            raise EngineError("the engine is stopped, because the result was closed; open the store again: open_store")
        if self.is_classic and not is_running(self._spark):
            raise EngineError(JVM_ENDED if self.owns else _SESSION_STOPPED)
        return self._spark

    @property
    def is_classic(self) -> bool:
        """Whether the session is classic, with a JVM object behind each DataFrame."""
        return self.engine == "spark"

    def activate(self) -> None:
        """Makes PySpark's functions build columns for this session. A process with several engines needs this call."""
        set_functions(is_classic=self.is_classic)

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Activates this session inside the block."""
        was_classic = builds_classic()
        self.activate()
        try:
            yield
        finally:
            set_functions(is_classic=was_classic)

    def ship_udfs(self) -> None:
        """Sends package `udfs` to all current and future executors of a cluster, unless a context has sent it."""
        if self.engine == "local":
            return
        if self.is_classic and _LOCAL_MASTER.fullmatch(self.spark.sparkContext.master or ""):
            return
        archive = _udfs_archive()
        sent = self.spark.sparkContext.listFiles if self.is_classic else []
        if all(Path(one).name != archive.name for one in sent):  # Spark warns of a second file
            self.spark.addArtifacts(str(archive), pyfile=True)

    @contextmanager
    def tagged(self, description: str) -> Iterator[None]:
        """Tags and describes the Spark jobs that this thread starts inside the block; see `end_tagged`.

        Spark Connect has no descriptions, so there ``description`` is a second tag.
        """
        if self.engine == "local":
            yield
            return
        spark = self.spark
        tags = [self._tag] if self.is_classic else [self._tag, _NO_TAG.sub("-", description)]
        for one in tags:
            spark.addTag(one)
        before = spark.sparkContext.getLocalProperty(_DESCRIPTION) if self.is_classic else None
        if self.is_classic:
            spark.sparkContext.setJobDescription(description)
        try:
            yield
        finally:
            if self.is_classic:
                # None removes the property. With an empty string, Spark's UI would show later queries without a name.
                spark.sparkContext.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
            for one in tags:
                spark.removeTag(one)

    def end_tagged(self) -> None:
        """Interrupts the jobs that were started inside a block of `tagged`."""
        if self.engine != "local":
            self.spark.interruptTag(self._tag)

    @contextmanager
    def suited(self, *, is_small: bool, is_in_one: bool = False) -> Iterator[None]:
        """Tunes the engine inside the block: an exchange has `partitions` partitions, or one if `is_in_one`.

        If `is_small`, the jobs have few rows, and Spark interprets plans: compilation would take longer.
        """
        wanted = _SUITED | {_PARTITIONS: "1" if is_in_one else str(self.partitions)}
        wanted |= _INTERPRETED if is_small else {}
        with self.configured({} if self.engine == "local" else wanted):
            yield

    @contextmanager
    def configured(self, wanted: Mapping[str, str]) -> Iterator[None]:
        """Changes Spark's settings inside the block. Settings that this session must not change keep their values.

        Blocks of several threads may overlap. The last of them to end restores the value before the first.
        """
        spark = self.spark
        with ExitStack() as undoing:
            for key, value in wanted.items():
                with suppress(PySparkException), _CHANGING:
                    change = _Change(spark, key, spark.conf.get(key, None))
                    spark.conf.set(key, value)
                    _CHANGES.append(change)
                    undoing.callback(_undo, change)
            yield

    def close(self) -> None:
        """Stops an owned engine and removes the scratch folder; later calls do nothing."""
        atexit.unregister(self._closing.close)
        self._closing.close()
        if self.owns:
            self._stopped.set()

    def __exit__(self, *_: object) -> None:
        """Closes this session."""
        self.close()


def _undo(change: _Change) -> None:
    """Restores a setting, unless a later open block has changed it: this block then restores ``change.before``."""
    with _CHANGING:
        later = _CHANGES[_CHANGES.index(change) + 1 :]
        _CHANGES.remove(change)
        for other in later:
            if other.spark is change.spark and other.key == change.key:
                other.before = change.before
                return
        if change.before is None:
            change.spark.conf.unset(change.key)
        else:
            change.spark.conf.set(change.key, change.before)


def open_session(
    engine: AskedEngine = "auto", spark: SparkSession | None = None, say: Callable[[str], None] = lambda _: None,
    scheme: str | None = None, *, is_small: bool = False,
) -> Session:  # fmt: skip
    """Starts an engine, or uses a running session.

    Args:
        engine: The engine to start. ``auto`` leaves the choice to `chosen_engine`. ``spark`` is the classic session of
            a notebook or of ``spark-submit``, else a local Spark. ``connect`` is the server in SPARK_REMOTE. ``local``
            is an embedded Sail.
        spark: The caller's session; ``engine`` is then ignored. None starts ``engine``.
        say: Called with progress messages before slow steps.
        scheme: The scheme of the store's address; a local Spark needs additional jars for buckets. None for a folder.
        is_small: Whether the load of the JVM is small, because the job has few rows or executes node programs in Python
            workers. A local Spark then gets ``conf/spark/small.conf``.

    Returns:
        The session, activated unless it is not classic and the program has a classic session, for which the program
        may use PySpark's functions.

    Raises:
        EngineError: The engine is unknown, cannot be started, lacks a component, or is an untested version of Spark.
    """
    chosen, _ = chosen_engine(asked_engine(engine, "auto"), engine_of_program(spark))
    with ExitStack() as closing:
        scratch = open_scratch(closing)
        with _interrupts_kept():
            given = running_session() if spark is None and chosen == "spark" else spark
            found = _start(chosen, scratch, closing, say, scheme, is_small) if given is None else given
            kind = engine_of(found)
        if kind != "local":
            check_spark(found.version, "the session", "use a session of a tested Spark, or engine 'local'")
        if kind == "spark" and not is_running(found):
            raise EngineError(_SESSION_STOPPED)
        session = Session(found, kind, _n_partitions(found, kind), given is None, scratch, closing.pop_all())
    atexit.register(session._closing.close)
    if kind == "spark" or running_session() is None:
        session.activate()
    return session


def _n_partitions(spark: SparkSession, kind: Engine) -> int:
    """Returns the number of partitions of an exchange: the setting of the session, but at most one for each core.

    On Spark Connect and with dynamic allocation, the number of cores is unknown.
    """
    cores = os.cpu_count() or 1
    if kind == "local":
        return cores
    is_limited = kind == "spark" and spark.conf.get("spark.dynamicAllocation.enabled", "false") != "true"
    if is_limited:
        cores = spark.sparkContext.defaultParallelism
    asked = spark.conf.get(_PARTITIONS) or ""
    if not asked.isdigit():  # Databricks also accepts "auto"
        return cores
    return min(int(asked), cores) if is_limited else int(asked)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Restores the handler of Ctrl-C after the block, because engines install handlers of their own."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


def _start(
    engine: Engine, scratch: Path, closing: ExitStack, say: Callable[[str], None], scheme: str | None, is_small: bool
) -> SparkSession:
    if engine == "connect":
        return connect_from_environment(closing)
    check_spark(pyspark.__version__, "the installed PySpark", WITH_TESTED_SPARK)  # Sail rejects PySpark 4.3
    if engine == "spark":
        return start_classic(scratch, closing, say, scheme, is_small=is_small)
    return start_sail(closing)


def engine_of_program(spark: SparkSession | None) -> Engine | None:
    """Returns the engine of ``spark``, else of the classic session of this program; None if neither session exists."""
    found = running_session() if spark is None else spark
    return None if found is None else engine_of(found)


def open_scratch(closing: ExitStack) -> Path:
    """Creates a folder that only this user can read. ``closing``, or a child if this process is killed, removes it."""
    is_writable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    has_room = is_writable and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
    folder = Path(tempfile.mkdtemp(prefix="roundtable-", dir=_MEMORY if has_room else None))
    try:
        remover = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-I", "-S", "-c", _REMOVER, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except BaseException:  # the user may start no more processes
        folder.rmdir()
        raise

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        remover.kill()
        if remover.stdin is not None:
            remover.stdin.close()
        remover.wait()

    closing.callback(remove)
    return folder


@cache
def _udfs_archive() -> Path:
    # Spark rejects a second file of one name, and a context may serve several programs: the name contains a digest.
    package, digest = Path(udfs.__file__).parent, blake2b(digest_size=8)
    content = {str(path.relative_to(package.parent)): path.read_bytes() for path in sorted(package.rglob("*.py"))}
    for name, text in content.items():
        digest.update(f"{name} {len(text)}\n".encode() + text)
    archive = open_scratch(_OF_PROCESS) / f"udfs-{digest.hexdigest()}.zip"
    with ZipFile(archive, "w") as zipped:
        for name, text in content.items():
            zipped.writestr(name, text)
    return archive


def concurrently(jobs: Iterable[Callable[[], _Answer]], n_threads: int = _N_THREADS) -> list[_Answer]:
    """Runs functions in ``n_threads`` threads; returns their results in order.

    If a function fails or the program is interrupted, no function starts any more, and `concurrently` waits for the
    running functions.
    """
    with ThreadPoolExecutor(n_threads) as pool:
        return [*pool.map(lambda job: job(), jobs)]
