"""The Java that classic Spark starts with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from pipelines.errors import EngineError

OLDEST, NEWEST = 17, 21
WITHOUT_JAVA = "or run with --engine local, which needs no Java"


def check_java() -> int:
    """Returns the major version of the Java that Spark will start.

    Raises:
        EngineError: There is none, or one that Spark does not run on; the message says what was found.
    """
    wanted = f"Java {OLDEST} to {NEWEST}"
    program = _java_program()
    if program is None:
        raise EngineError(
            f"the engine 'spark' needs {wanted}, and there is no java on PATH and no JAVA_HOME; "
            f"install it (e.g. OpenJDK {OLDEST}), {WITHOUT_JAVA}"
        )
    version = major_version(_version_text(program))
    if version is None or not OLDEST <= version <= NEWEST:
        found = "no Java that answers to -version" if version is None else f"Java {version}"
        raise EngineError(
            f"the engine 'spark' needs {wanted}; {program} is {found}; set JAVA_HOME to a fitting Java, {WITHOUT_JAVA}"
        )
    return version


def major_version(text: str) -> int | None:
    """Returns the major version in what ``java -version`` prints (8 for ``1.8.0_392``), or none."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _java_program() -> str | None:
    """The same choice as Spark's launcher: JAVA_HOME, else PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


@cache
def _version_text(program: str) -> str:
    """Returns the output of ``java -version``: a JVM starts for it, and several parts of a program ask."""
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the user's Java
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr + answer.stdout
