"""Random runs of protocol ``epidemic`` against the plain program: losses, crashes and replaced links at once.

``--schedules 500`` plays 500 runs. They end while gossip goes on, so that caches and LostBuffers are compared midway.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from oracles.epidemic.network import play
from support.epidemic import random_scenario
from support.forms import cut

from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.testing import rows, run_all, run_configs

LAST_ROUND = 75
MOST_IN_A_JOB = 100
HEAD = ("run_id", "due_round", "kind", "src", "dst", "sent_round", "source", "source_seq", "message_id", "fate")


def test_random_runs_are_those_of_the_plain_program(sail: Session, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    count = pytestconfig.getoption("schedules") or 30
    kinds: Counter[str] = Counter()
    for first in range(0, count, MOST_IN_A_JOB):
        seeds = list(range(first, min(first + MOST_IN_A_JOB, count)))
        kinds += _compared(seeds, sail, tmp_path / str(first))
    assert {"SUB", "UNSUB", "EVENT", "GOSSIP", "REQUEST", "REPLY"} == kinds.keys()


def _compared(seeds: list[int], sail: Session, root: Path) -> Counter[str]:
    """Compares messages with ids and fates, deliveries, caches and LostBuffers; returns the kinds of messages."""
    scenarios = [random_scenario(seed, {"loss", "crash", "replace"}) for seed in seeds]
    runs = [cut(run, LAST_ROUND) for run in run_configs(scenarios, seeds)]
    store, inputs = run_all(runs, sail, root), build_inputs(runs, None)
    message, delivery = (
        rows(store, "message", *HEAD),
        rows(store, "delivery", "run_id", "subscriber", "source", "source_seq", "round", "hops"),
    )
    cache = rows(store, "state_cache", "run_id", "node_id", "source", "source_seq")
    lost = rows(store, "state_lost", "run_id", "node_id", "source", "pattern_id", "number", "expires_round")
    for run in runs:
        due = [row[2:] for row in message if row[0] == run.run_id and row[1] <= LAST_ROUND]
        own = due + [(*row[2:-1], "in_flight") for row in message if row[0] == run.run_id and row[1] > LAST_ROUND]
        story = play(run, inputs, Counter(row[:7] for row in due if row[7] == "lost_link"), LAST_ROUND)
        assert sorted(own, key=repr) == sorted(story.messages, key=repr), run.seed
        assert sorted(row[1:] for row in delivery if row[0] == run.run_id) == sorted(story.deliveries), run.seed
        assert {row[1:] for row in cache if row[0] == run.run_id} == {
            (node, *key) for node, keys in story.caches.items() for key in keys
        }, run.seed
        assert {row[1:5] for row in lost if row[0] == run.run_id and row[5] > LAST_ROUND} == {
            (node, *key) for node, keys in story.lost.items() for key in keys
        }, run.seed
    return Counter(row[2] for row in message)
