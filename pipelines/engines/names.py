"""The names of the engines, and which one runs a scenario; imports no engine."""

from __future__ import annotations

import os
from typing import Literal, get_args

from pipelines.errors import EngineError, nearest

Engine = Literal["spark", "connect", "sail"]
ENGINES: tuple[Engine, ...] = get_args(Engine)


def engine_for(given: Engine | None, otherwise: Engine) -> Engine:
    """Returns the engine of a run: the one that is given, else the one of ROUNDTABLE_ENGINE, else the scenario's.

    Raises:
        EngineError: ROUNDTABLE_ENGINE names no engine.
    """
    named = os.environ.get("ROUNDTABLE_ENGINE")
    if given is not None or not named:
        return given or otherwise
    if named not in ENGINES:
        raise EngineError(f"ROUNDTABLE_ENGINE is {named!r}; it may be {', '.join(ENGINES)};{nearest(named, ENGINES)}")
    return named
