"""Plays random schedules of protocol `repository` with one broken rule, without an engine."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
_PACKAGES = ("udfs.repository", "support.repository", "oracles.repository")
"""The packages that are imported again: the program, and the test code that imports it."""


@contextmanager
def broken(change: Mapping[str, str]) -> Iterator[Callable[[str, int], list[object]]]:
    """Breaks a rule of the program, and yields a function that plays a schedule and returns its violations.

    The arguments of the function are the name of a function in `support.repository.schedules` and its seed. ``change``
    is a row of ``mutation/broken_rules.yaml``. Afterwards the modules are those that were loaded before.
    """
    before = _unloaded()
    try:
        _load(change)
        schedules, checker, judge = map(
            importlib.import_module,
            ("support.repository.schedules", "support.repository.checker", "oracles.repository.judge"),
        )

        def violations(drawn: str, seed: int) -> list[object]:
            check = checker.Checker(getattr(schedules, drawn)(seed))
            return [*check.run(1), *judge.judged(schedules.observed(check.schedule, check.network))]

        yield violations
    finally:
        _unloaded()
        sys.modules.update(before)
        for name in _PACKAGES:
            parent, _, last = name.rpartition(".")
            setattr(sys.modules[parent], last, before[name])


def _unloaded() -> dict[str, ModuleType]:
    """Removes the modules of `_PACKAGES` from ``sys.modules``, and returns them."""
    prefixes = tuple(f"{package}." for package in _PACKAGES)
    found = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(prefixes)}
    for name in found:
        del sys.modules[name]
    return found


def _load(change: Mapping[str, str]) -> None:
    path = ROOT / change["module"]
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    text = path.read_text("utf-8").replace(change["was"], change["is"])
    exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102
