"""The node program of `forwarding` leaves the rows of its dataflow form: messages with ids, deliveries, tables.

``--schedules 200`` plays so many random runs; `tests/perf/forms.py` plays the shipped scenarios, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.forms import differences
from support.link_faults import random_scenario

from pipelines.contract.forms import AskedForm
from pipelines.engines.session import Session
from pipelines.testing import rows, run_all, run_configs

CHAIN = {
    "protocol": {"name": "forwarding"},
    "overlay": {"links": [["A", "B"], ["B", "C"], ["C", "D"]]},
    "time": {"rounds": 100},
}
TWICE = {
    **CHAIN,
    "name": "twice",
    "workload": {
        "subscriptions": [{"at": "A", "round": 1, "topic": "t"}],
        "publications": [{"at": "D", "round": 30, "topic": "t"}],
    },
    "faults": [{"kind": "duplicate", "rate": 1.0, "kinds": ["SUB"], "after": [2, 2]}],
}
"""The link brings each SUB twice."""


def test_random_runs_with_all_faults(sail: Session, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    count = pytestconfig.getoption("schedules") or 30
    seeds = list(range(150, 150 + count))
    runs = run_configs([random_scenario(seed, {"name": "forwarding"}) for seed in seeds], seeds)
    assert differences("forwarding", runs, sail, tmp_path, commit_every=20) == []


@pytest.mark.parametrize("form", ["dataflow", "program"])
def test_a_second_copy_of_a_subscription_adds_no_entry(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """A routing table has one entry for a subscription (report, section 2)."""
    store = _played(form, TWICE, sail, tmp_path)
    assert rows(store, "state_routing_entry", "node_id", "subscription_id", "next_hop") == [
        (0, 0, 0), (1, 0, 0), (2, 0, 1), (3, 0, 2),
    ]  # fmt: skip
    assert rows(store, "delivery", "subscriber", "round", "hops") == [(0, 33, 3)]


@pytest.mark.parametrize("form", ["dataflow", "program"])
def test_the_last_change_of_an_entry_in_a_round_counts(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    """SUB overtaken by UNSUB on A-B, both due at C in one round after a pause, UNSUB first: C has an entry again."""
    late = {"kind": "delay", "rounds": [4, 4], "rate": 1.0, "links": [["A", "B"]], "kinds": ["SUB"], "reorder": True}
    parts = {
        **CHAIN,
        "name": "overtaken",
        "workload": {"subscriptions": [{"at": "A", "round": 1, "topic": "t", "until": 3}], "publications": []},
        "faults": [{**late, "round": 1, "until": 2}, {"kind": "pause", "node": "C", "round": 3, "until": 20}],
    }
    store = _played(form, parts, sail, tmp_path)
    kinds = rows(store, "message", "message_id", "kind", "dst", "due_round")
    assert [kind for _, kind, dst, due in kinds if (dst, due) == (2, 20)] == ["UNSUB", "SUB"]
    assert rows(store, "state_routing_entry", "node_id", "next_hop") == [(1, 0), (2, 1), (3, 2)]


def _played(form: AskedForm, parts: dict[str, Any], sail: Session, tmp_path: Path) -> Any:
    runs = run_configs([parts])
    return run_all(runs, sail, tmp_path, form=form)
