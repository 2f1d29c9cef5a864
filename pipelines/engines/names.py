"""The names of the engines, and which one runs a scenario; imports no engine."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Final, Literal, get_args

from pipelines.engines.java import check_java
from pipelines.errors import EngineError, nearest

Engine = Literal["spark", "connect", "local"]
AskedEngine = Literal["auto", "spark", "connect", "local"]
ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)
ASKED_ENGINES: Final[tuple[AskedEngine, ...]] = get_args(AskedEngine)
_OLDER: Final = {"sail": "local"}
"""Names that scripts of earlier versions use."""


_EXTRAS: Final = {"pyspark": "local", "pysail": "local", "delta": "spark", "graphframes": "spark", "py4j": "spark"}
"""By package: the extra of this project that installs it."""


def engine_cure(error: ModuleNotFoundError) -> str | None:
    """Returns the missing engine package and its installation; None where another package is missing."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return None
    return (
        f"package {package} is not installed; run pip install 'roundtable-pubsub[{_EXTRAS[package]}]' "
        "(local needs Python only, spark a JDK, too)"
    )


def current_name(engine: object) -> object:
    """Returns the current name of an engine that is given by an older name; anything else as it is."""
    return _OLDER.get(engine, engine) if isinstance(engine, str) else engine


def asked_engine(given: AskedEngine | None, otherwise: AskedEngine) -> AskedEngine:
    """Returns the engine that is asked for: `given`, else the one of ROUNDTABLE_ENGINE, else that of the scenario.

    Args:
        given: The engine that the caller names; None: none.
        otherwise: The engine of the scenario.

    Raises:
        EngineError: `given` or ROUNDTABLE_ENGINE names no engine.
    """
    variable = os.environ.get("ROUNDTABLE_ENGINE")
    named = current_name(given or variable or otherwise)
    for name in ASKED_ENGINES:
        if name == named:
            return name
    source = f"the engine is {given!r}" if given else f"ROUNDTABLE_ENGINE is {variable!r}"
    raise EngineError(f"{source}; it may be {', '.join(ASKED_ENGINES)};{nearest(str(named), ASKED_ENGINES)}")


def chosen_engine(asked: AskedEngine, running: Engine | None = None) -> tuple[Engine, str]:
    """Returns the engine that runs a scenario, and the reason.

    Args:
        asked: The engine that is asked for.
        running: The engine of the session that the caller has; None: there is no session.
    """
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


def engine_for(given: AskedEngine | None, otherwise: AskedEngine) -> Engine:
    """Returns the engine of a scenario where the caller has no session; arguments and errors as in `asked_engine`."""
    return chosen_engine(asked_engine(given, otherwise))[0]
