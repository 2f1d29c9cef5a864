"""The engines' names, the choice of an engine, and the check of Java. This module imports no engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, get_args

from pipelines.errors import EngineError, nearest

Engine = Literal["spark", "connect", "local"]
AskedEngine = Literal["auto", "spark", "connect", "local"]
ASKED_ENGINES: Final[tuple[AskedEngine, ...]] = get_args(AskedEngine)
_FORMER_NAMES: Final = {"sail": "local"}
"""Maps the former names of engines, which scripts may still use, to the current names."""
_EXTRAS: Final = {"pyspark": "local", "pysail": "local", "delta": "spark", "graphframes": "spark", "py4j": "spark"}
"""Maps each package to the extra of this project that installs it."""
OLDEST, NEWEST = 17, 21
"""The oldest and the newest major version of Java that Spark 4 supports."""
OLDEST_SPARK, NEWEST_SPARK = (4, 0), (4, 2)
"""The oldest and the newest minor version of Spark that passed the tests; Delta Lake has a jar for each of them."""
WITHOUT_JAVA: Final = "or run with --engine local, which needs no Java"
JVM_ENDED: Final = (
    "the JVM of Spark has ended: it was killed, or its memory was exhausted; SPARK_DRIVER_MEMORY sets its heap, "
    + WITHOUT_JAVA
)
WITH_TESTED_SPARK: Final = "run pip install --upgrade 'roundtable-pubsub[spark,local]'"


def engine_cure(error: ModuleNotFoundError) -> str | None:
    """Returns the pip command for a missing engine package; None for any other package."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    return (
        f"package {package} is not installed; run pip install 'roundtable-pubsub[{_EXTRAS[package]}]' "
        "(local needs Python only, spark a JDK, too)"
    )


def current_name(engine: object) -> object:
    """Returns the current name of the engine if ``engine`` is a former name; returns any other value unchanged."""
    return _FORMER_NAMES.get(engine, engine) if isinstance(engine, str) else engine


def asked_engine(given: AskedEngine | None, default: AskedEngine) -> AskedEngine:
    """Returns ``given`` if it is set, else the value of variable ROUNDTABLE_ENGINE if set, else ``default``.

    Raises:
        EngineError: ``given`` or ROUNDTABLE_ENGINE is not an engine.
    """
    variable = os.environ.get("ROUNDTABLE_ENGINE")
    named = current_name(given or variable or default)
    for name in ASKED_ENGINES:
        if name == named:
            return name
    source = f"the engine is {given!r}" if given else f"ROUNDTABLE_ENGINE is {variable!r}"
    raise EngineError(f"{source};{nearest(str(named), ASKED_ENGINES)} allowed: {', '.join(ASKED_ENGINES)}")


def chosen_engine(asked: AskedEngine, running: Engine | None = None) -> tuple[Engine, str]:
    """Returns the engine to use, and the reason; ``running`` is the engine of the caller's session, if it has one."""
    if running is not None and asked in ("auto", running):
        return running, "the session of this program"
    if asked != "auto":
        return asked, "as asked for"
    if os.environ.get("SPARK_REMOTE"):
        return "connect", "SPARK_REMOTE names a server"
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "spark", "spark-submit started this program"
    if find_spec("delta") is None:
        return "local", "package delta-spark is not installed"
    try:
        return "spark", f"Java {check_java()} was found"
    except EngineError:
        return "local", "no Java that Spark runs on was found"


def engine_for(given: AskedEngine | None, default: AskedEngine) -> Engine:
    """Returns the engine to use for a caller without a session. Arguments and errors are those of `asked_engine`."""
    return chosen_engine(asked_engine(given, default))[0]


def check_java() -> int:
    """Returns the major version of the Java that Spark will start.

    Raises:
        EngineError: Java is missing or has a version that Spark does not support.
    """
    wanted = f"Java {OLDEST} to {NEWEST}"
    program = _java_program()
    if program is None:
        raise EngineError(
            f"the engine 'spark' needs {wanted}, but PATH has no java and JAVA_HOME is not set; "
            f"install it (e.g. OpenJDK {OLDEST}), {WITHOUT_JAVA}"
        )
    major = major_version(_version_text(program))
    if major is None or not OLDEST <= major <= NEWEST:
        found = "no Java that answers to -version" if major is None else f"Java {major}"
        raise EngineError(
            f"the engine 'spark' needs {wanted}; {program} is {found}; set JAVA_HOME to a fitting Java, {WITHOUT_JAVA}"
        )
    return major


def check_launch() -> None:
    """Checks the variables SPARK_REMOTE and SPARK_HOME, which the launcher of a local Spark reads.

    Raises:
        EngineError: SPARK_REMOTE is set, or SPARK_HOME is not a Spark of the minor version of the installed PySpark.
    """
    if os.environ.get("SPARK_REMOTE"):
        raise EngineError(
            "the engine 'spark' does not start while SPARK_REMOTE is set; unset it, or run with --engine connect"
        )
    home, pyspark = os.environ.get("SPARK_HOME"), version("pyspark")
    if home is None:
        return
    jars = (jar.stem.partition("-core_")[2].partition("-")[2] for jar in Path(home, "jars").glob("spark-core_*.jar"))
    found = next(jars, None)
    if found is None or release(found)[:2] != release(pyspark)[:2]:
        raise EngineError(
            f"SPARK_HOME is {home!r}, which is {'no Spark' if found is None else f'Spark {found}'}; PySpark {pyspark} "
            f"needs its own Spark; unset SPARK_HOME, {WITHOUT_JAVA}"
        )


def check_spark(version: str, source: str, remedy: str) -> None:
    """Checks a version of Spark. Patch releases of a tested minor version are accepted.

    The error names ``source``, the component with this version, and ``remedy``, the user's next step.

    Raises:
        EngineError: The minor version of Spark has not been tested.
    """
    if OLDEST_SPARK <= release(version)[:2] <= NEWEST_SPARK:
        return
    oldest, newest = (".".join(map(str, one)) for one in (OLDEST_SPARK, NEWEST_SPARK))
    raise EngineError(f"{source} is Spark {version}; Roundtable was tested with Spark {oldest} to {newest}; {remedy}")


def release(version: str) -> tuple[int, ...]:
    """Returns the numbers at the start of a version: (4, 0, 1) for ``4.0.1.dev2``, () for a string without numbers."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def java_version() -> str:
    """Returns the output of ``java -version``, which names the build; empty if Java is missing."""
    program = _java_program()
    return "" if program is None else _version_text(program)


def major_version(text: str) -> int | None:
    """Returns the major version in the output of ``java -version`` (8 for ``1.8.0_392``); None if it has no version."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _java_program() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


@cache
def _version_text(program: str) -> str:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the user's Java
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout
