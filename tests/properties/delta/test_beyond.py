"""More crashes than δ: every loss is explained by a crash on its way, and the larger δ is, the less is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from support.beyond import Extent, as_runs, explanations, fault_of, protocols, ratios, schedule
from support.one_job import Stores

from pipelines.audits.run import audit_store
from pipelines.engines.session import Session
from pipelines.protocols import protocol_named
from pipelines.scenario.load import RunConfig
from pipelines.sql.query import StoreReader
from pipelines.testing import run_all

N_SCHEDULES = 10
SHORT = Extent(
    sizes=(7, 10), slowest=1, n_late=0, first_crash=18, crash_rounds=2, longest=6, publication_rounds=12, last=36
)  # fmt: skip
SETTINGS = {name: [one for one in protocols() if one["name"] == name][:3] for name in ("forwarding", "delta")}


SCHEDULES = [schedule(seed, SHORT) for seed in range(N_SCHEDULES)]


def delta_runs() -> dict[str, list[RunConfig]]:
    return {"delta": as_runs(SCHEDULES, SETTINGS["delta"])}


@pytest.fixture(scope="module")
def readers(sail: Session, stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoreReader]:
    """The same schedules under forwarding, and under δ = 0, 1 and 2."""
    assert any(one.is_chain for one in SCHEDULES)
    forwarding = run_all(as_runs(SCHEDULES, SETTINGS["forwarding"]), sail, tmp_path_factory.mktemp("beyond"))
    found = {"forwarding": forwarding, "delta": stores("delta")}
    return {name: StoreReader(sail, store.root) for name, store in found.items()}


def test_every_loss_is_explained_by_a_crash_on_its_way(readers: dict[str, StoreReader]) -> None:
    for name, reader in readers.items():
        told = list(explanations(reader))
        assert [(fault, story.run_id, story.verdict) for story, _, fault in told if fault is not None] == [], name
        lost = [story for story, what, _ in told if what == "explained by a crash"]
        print(f"{name}: {len(lost)} losses, of which {sum(story.is_expected for story in lost)} were promised")
        assert lost


def test_an_explanation_that_is_wrong_is_found(readers: dict[str, StoreReader]) -> None:
    story = next(story for story, what, _ in explanations(readers["forwarding"]) if what == "explained by a crash")
    assert story.cause is not None
    crash = (story.run_id, story.names[story.cause.node], story.cause.round)
    assert fault_of(story, {crash}) is None
    assert fault_of(story, set()) is not None
    assert fault_of(replace(story, path=()), {crash}) is not None
    assert fault_of(replace(story, cause=replace(story.cause, kind="unexplained")), {crash}) is not None
    assert fault_of(replace(story, ended="unknown"), {crash}) is not None


def test_the_larger_delta_is_the_less_is_lost(readers: dict[str, StoreReader]) -> None:
    made: Counter[str] = Counter()
    for name, reader in readers.items():
        for run_id, is_down, _, n_made in ratios(reader):
            if not is_down:
                made[f"{name} {run_id % len(SETTINGS[name])}"] += n_made
    print(made)
    assert made["forwarding 0"] < made["delta 1"] < made["delta 2"]
    assert made["delta 0"] <= made["delta 1"]


def test_within_delta_nothing_is_lost(readers: dict[str, StoreReader], sail: Session) -> None:
    report = audit_store(readers["delta"], protocol_named("delta"))
    assert {run.verdict for run in report.runs} == {"valid"}
    beyond = Counter(run.run_id % len(SETTINGS["delta"]) for run in report.runs if not run.within_bound)
    assert N_SCHEDULES == beyond[0] > beyond[1] > beyond[2] > 0
