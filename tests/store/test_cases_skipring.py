"""Small scenarios of the skip ring that had a wrong verdict, with the right one."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.engines.session import Session
from pipelines.result import Result
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import audited, broken, run_all, run_configs, scenario

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


@pytest.fixture(scope="module")
def store(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    runs = run_configs([ALL_LEAVE, LEFT_AT_ONCE, TWO_TOPICS])
    return run_all(runs, sail, tmp_path_factory.mktemp("cases_skipring"))


def test_all_are_valid(store: Store) -> None:
    report = audited(store, "skipring")
    assert broken(report) == {}
    assert [(run.run_id, run.reason) for run in report.undecided] == []
    assert report.verdict == "valid"


def test_why_agrees_about_what_only_departed_subscribers_had(store: Store) -> None:
    result = Result(store.root, store.session)
    late = result.why(0, "N4", "N1", call=2)
    assert "subscribed in round 200 only" in late.verdict
    lost = result.why(1, "N4", "N1", call=2)
    assert lost.ended == "lost"
    assert "it was not promised" in lost.verdict


def test_publications_of_the_start_have_numbers_of_their_own(store: Store) -> None:
    """N4 joins topic b only, and waits for its four publications, not for those of topic a."""
    reader = StoreReader(store.session, store.root)
    text = """select count(distinct topic), count(distinct publication.source_seq)
      from state_trie_node where run_id = 2 and publication is not null"""
    assert [tuple(row) for row in reader.sql(text).collect()] == [(2, 8)]
    text = "select topic, n_earlier, full_rounds > 0 from first_configuration where run_id = 2 and name = 'N4'"
    assert [tuple(row) for row in reader.sql(text).collect()] == [("b", 4, True)]
