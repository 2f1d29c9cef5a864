"""Small scenarios of the skip ring that had a wrong verdict, with the right one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.result import Result
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import audited, broken, found, planted, removed, run_all, run_configs, scenario

TOPIC = "t"


def ring(name: str, subscriptions: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    return scenario(
        protocol={"name": "skipring", **parts.pop("settings", {})},
        overlay={"nodes": {"count": 4, "supervisors": 1}},
        workload={"subscriptions": subscriptions, "publications": parts.pop("publications", [])},
        time={"rounds": parts.pop("rounds", 600)},
        **parts,
    )


ALL_LEAVE = ring(
    "all_leave_new",
    [
        *({"at": f"N{number}", "topic": TOPIC, "until": 100} for number in (1, 2, 3)),
        {"at": "N4", "topic": TOPIC, "round": 200},
    ],
    settings={"start": "legitimate", "start_until": 0},
    publications=[{"at": "N1", "round": 20, "topic": TOPIC}],
    rounds=900,
)
"""Whoever has the publication leaves before N4 comes."""
LEFT_AT_ONCE = ring(
    "left_at_once",
    [{"at": "N1", "topic": TOPIC, "until": 2}, *({"at": f"N{number}", "topic": TOPIC} for number in (2, 3, 4))],
    publications=[{"at": "N1", "round": 1, "topic": TOPIC}],
)
"""N1 publishes and leaves before it has a neighbour."""
TWO_TOPICS = ring(
    "two_topics_start",
    [
        *({"at": f"N{number}", "topic": topic} for topic in ("a", "b") for number in (1, 2, 3)),
        {"at": "N4", "topic": "b", "round": 100},
    ],
    settings={"start": "tries", "start_until": 0, "start_publications": 4},
)

RING_OF_THREE = [{"at": f"N{number}", "topic": TOPIC} for number in (1, 2, 3)]
FROM_N1_AND_N4 = [{"at": "N1", "round": 200, "topic": TOPIC}, {"at": "N4", "round": 300, "topic": TOPIC}]
CRASH_OF_N4 = {"kind": "crash", "node": "N4", "round": 301}
LEAVES_AFTER_JOIN = ring(
    "leaves_after_join",
    [*RING_OF_THREE, {"at": "N4", "topic": TOPIC, "round": 300, "until": 301}],
    publications=FROM_N1_AND_N4,
)
"""N4 publishes before it has a label, and leaves. The other subscribers have received a publication of N1."""
CRASHES_AFTER_JOIN = ring(
    "crashes_after_join",
    [*RING_OF_THREE, {"at": "N4", "topic": TOPIC, "round": 300}],
    publications=FROM_N1_AND_N4,
    faults=[CRASH_OF_N4],
)
CRASHES_AFTER_LOSS = ring(
    "crashes_after_loss",
    [*RING_OF_THREE, {"at": "N4", "topic": TOPIC}],
    publications=FROM_N1_AND_N4,
    faults=[{"kind": "loss", "rate": 1.0, "round": 300, "until": 301}, CRASH_OF_N4],
)
"""The links lose all copies of a publication, and its publisher crashes."""


def slow_to_heal(name: str, n_subscribers: int, crashed: range, **settings: Any) -> dict[str, Any]:
    """Returns a ring of which nodes `crashed` crash in round 1, and which heals only after the end of the run."""
    return scenario(
        name=name,
        protocol={"name": "skipring", "timeout_interval": 5, "max_delay": 1, **settings},
        overlay={"nodes": {"count": n_subscribers, "supervisors": 1}},
        workload={"subscriptions": [{"at": f"N{number}", "topic": TOPIC} for number in range(1, n_subscribers + 1)]},
        faults=[{"kind": "crash", "node": f"N{number}", "round": 1} for number in crashed],
        time={"rounds": 800},
    )


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    runs = run_configs([ALL_LEAVE, LEFT_AT_ONCE, TWO_TOPICS, LEAVES_AFTER_JOIN, CRASHES_AFTER_JOIN, CRASHES_AFTER_LOSS])
    return run_all(runs, sail, tmp_path_factory.mktemp("cases_skipring"))


def test_all_are_valid(store: Store) -> None:
    report = audited(store, "skipring")
    assert broken(report) == {}
    assert [(run.run_id, run.reason) for run in report.undecided] == []
    assert report.verdict == "valid"


def test_why_agrees_about_what_only_departed_subscribers_had(store: Store) -> None:
    result = Result(store.root, store.session)
    late = result.why(0, "N4", "N1", call=2)
    assert "subscribed only in round 200" in late.verdict
    lost = result.why(1, "N4", "N1", call=2)
    assert lost.ended == "lost"
    assert "the delivery was not guaranteed" in lost.verdict


def test_publications_of_the_start_have_numbers_of_their_own(store: Store) -> None:
    """N4 joins topic b only, and waits for its four publications, not for those of topic a."""
    reader = StoreReader(store.session, store.root)
    text = """select count(distinct topic), count(distinct publication.source_seq)
      from state_trie_node where run_id = 2 and publication is not null"""
    assert [tuple(row) for row in reader.sql(text).collect()] == [(2, 8)]
    text = "select topic, n_earlier, full_rounds > 0 from first_configuration where run_id = 2 and name = 'N4'"
    assert [tuple(row) for row in reader.sql(text).collect()] == [("b", 4, True)]


def test_time_limits_include_the_settings_that_delay_convergence(sail: Session, tmp_path: Path) -> None:
    """A topic is undecided until its supervisor knows the crash, and until neighbours have been silent (rule K6)."""
    undetected = slow_to_heal("undetected", 4, range(4, 5), start="legitimate", detection_rounds=1000)
    silent = slow_to_heal("silent", 12, range(1, 10), start="arbitrary", max_label_bits=61, silence_intervals=400)
    report = audited(run_all(run_configs([undetected, silent], seeds=[0, 66]), sail, tmp_path), "skipring")
    assert broken(report) == {}
    assert {run.run_id: run.verdict for run in report.runs} == {0: "unknown", 1: "unknown"}


def test_a_subscriber_delivers_the_publications_of_its_trie(store: Store, tmp_path: Path) -> None:
    """A publication that N2 has in its trie and has not delivered violates guarantee ``published_everywhere``."""
    changed = planted(store, tmp_path, delivery=removed("run_id = 3 and subscriber = 2"))
    assert found(changed, "published_everywhere", "skipring") == [
        (3, "N2", "N1", 2, f"its trie of topic {TOPIC} has it, and it has not delivered it")
    ]
