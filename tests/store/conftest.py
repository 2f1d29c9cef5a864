"""Runs a scenario that a test writes as a dictionary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.copies import Plantings, planting

from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.scenario.load import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.store.store import Store

FIGURE5 = (("P1", "N1"), ("N1", "N2"), ("N1", "N3"), ("N2", "S1"), ("N2", "S2"), ("N3", "S3"), ("N3", "S4"))
"""Links of the tree of Figure 5."""


class Interrupted(Exception):  # noqa: N818 - it is no error of the program
    """A run was stopped from outside."""


def run_dictionary(
    parts: Mapping[str, Any], session: Session, folder: Path, commit_every: int = 10, stop_after: int | None = None
) -> Path:
    """Runs one run of a scenario into a new store.

    Args:
        parts: The scenario; without ``overlay`` on the tree of Figure 5, without ``time`` for 300 rounds.
        session: The engine.
        folder: Where the store is made.
        commit_every: Rounds between commits.
        stop_after: The run is interrupted when a round after this one is over, before that is committed.

    Returns:
        The folder of the store.
    """
    filled = {"name": "test", "overlay": {"links": [list(link) for link in FIGURE5]}, "time": {"rounds": 300}, **parts}
    runs = [RunConfig(run_id=0, seed=0, scenario=Scenario.model_validate(filled), parameters={})]
    root = folder / f"store{len(list(folder.iterdir()))}"
    root.mkdir()

    def observe(progress: Progress) -> None:
        if stop_after is not None and progress.round > stop_after:
            raise Interrupted

    session.activate()
    with suppress(Interrupted):
        execute(Experiment(runs, build_inputs(runs, None), commit_every), session, Store(root, session), observe)
    return root


@pytest.fixture(scope="session")
def run_scenario() -> Callable[..., Path]:
    """`run_dictionary`."""
    return run_dictionary


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> list[pytest.Item] | None:
    """Collects generator functions as tests that plant violations, see `support.copies`."""
    if not (name.startswith("test_") and inspect.isgeneratorfunction(obj)):
        return None
    setattr(collector.obj, name, planting(obj))
    items: list[pytest.Item] = collector.ihook.pytest_pycollect_makeitem(
        collector=collector, name=name, obj=getattr(collector.obj, name)
    )
    return items


@pytest.fixture(scope="module")
def plantings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plantings:
    """The tests of the module that plant violations in copies of runs."""
    return Plantings(request, tmp_path_factory.mktemp("plantings"))
