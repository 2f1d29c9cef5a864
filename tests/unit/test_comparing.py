"""What users want of protocols is read, judged run by run, and ranks candidates."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.comparing.compare import measure_of, parse_wants, ranked, settings_of, with_candidates
from pipelines.errors import QueryError, ScenarioError
from pipelines.experiment.prepared import Prepared, prepare

ROW: dict[str, Any] = {
    "n_wanted": 4, "n_wanted_delivered": 4, "wanted_ratio": 1.0, "n_duplicates": 0, "n_source_order_broken": 0,
    "n_causal_order_broken": 1, "n_total_order_broken": 2, "n_asked_causal_broken": None, "n_asked_total_broken": 0,
    "latency_ms_p95": 400.0, "latency_rounds_max": 9,
    "settling_ms": None, "messages_per_delivery": 3.0, "within_bound": True,
}  # fmt: skip
LINE: dict[str, Any] = {
    "name": "line",
    "protocol": {"name": "delta", "detection_rounds": 7},
    "overlay": {"links": [["A", "B"], ["B", "C"]]},
    "workload": {
        "subscriptions": [{"at": "C", "topic": "t"}],
        "publications": [{"at": "A", "round": 12, "topic": "t"}],
    },
    "time": {"rounds": 60},
}


def holds(want: str, **others: Any) -> bool:
    (conditions,) = parse_wants(want).values()
    return all(condition.holds({**ROW, **others}) for condition in conditions)


@pytest.mark.parametrize(
    ("want", "is_so"),
    [
        ("exactly_once", True), ("at_least_once", True), ("at_most_once", True), ("per_source_order", True),
        ("causal_order", False), ("total_order", False), ("asked_order", True), ("p95 < 500 ms", True),
        ("p95 < 400 ms", False), ("p95<=0.4s", True), ("max < 9 rounds", False), ("delivered >= 100 %", True),
        ("messages = 3", True), ("n_total_order_broken <= 1", False), ("settling < 1 s", True),
        ("wanted_ratio > 0.9", True), ("n_wanted <= 3", False),
    ],
)  # fmt: skip
def test_a_want_is_judged_by_a_run(want: str, is_so: bool) -> None:
    assert holds(want) == is_so


def test_a_loss_breaks_what_is_wanted() -> None:
    lost = {"n_wanted_delivered": 3, "wanted_ratio": 0.75}
    assert [holds(want, **lost) for want in ("exactly_once", "at_least_once", "at_most_once")] == [False, False, True]
    assert not holds("delivered > 75 %", **lost)
    assert not holds("exactly_once", n_duplicates=1)


def test_what_has_no_value_holds_unless_deliveries_are_missing() -> None:
    assert holds("p95 < 500 ms", latency_ms_p95=None)
    assert not holds("p95 < 500 ms", latency_ms_p95=None, n_wanted_delivered=0)


@pytest.mark.parametrize(
    ("wants", "message"),
    [
        ("exactly_onec", "did you mean 'exactly_once'?"),
        ("p95 < 5", "a time without a unit; write rounds, ms, s"),
        ("p95 < 5 km", "a time without a unit"),
        ("messages < 5 ms", "the unit 'ms', but messages has no unit"),
        ("mesages < 5", "did you mean 'messages'?"),
        ("p95 <", "neither a guarantee"),
        ("exactly_once,", "an item of the wants 'exactly_once,' is empty"),
        ("delivered > 90", "a limit above 1; allowed: 0 to 1, or 0 % to 100 %, e.g. delivered > 90 %"),
    ],
)
def test_wants_that_cannot_be_read(wants: str, message: str) -> None:
    with pytest.raises(QueryError, match=message.replace("?", r"\?")):
        parse_wants(wants)


def test_a_measure_is_named_by_a_column_or_a_short_name() -> None:
    assert measure_of("p95") == "latency_ms_p95"
    assert measure_of("bytes") == "bytes_per_delivery"


def test_candidates_are_ranked_by_wants_and_then_by_the_measure() -> None:
    dear, cheap, lossy = {"name": "delta", "delta": 3}, {"name": "delta", "delta": 2}, {"name": "forwarding"}
    rows = [
        {**ROW, "run_id": 0, "messages_per_delivery": 5.0},
        {**ROW, "run_id": 1, "messages_per_delivery": 7.0},
        {**ROW, "run_id": 2},
        {**ROW, "run_id": 3, "messages_per_delivery": None},
        {**ROW, "run_id": 4, "messages_per_delivery": 1.0},
        {**ROW, "run_id": 5, "wanted_ratio": 0.5, "n_wanted_delivered": 2, "within_bound": False},
    ]
    wants = parse_wants("exactly_once, causal_order")
    settings = dict(enumerate([dear, dear, cheap, cheap, lossy, lossy]))
    found = ranked(rows, settings, wants, "messages_per_delivery")
    assert [(one.protocol, one.settings, one.measure) for one in found] == [
        ("delta", {"delta": 2}, 3.0), ("delta", {"delta": 3}, 6.0), ("forwarding", {}, 2.0),
    ]  # fmt: skip
    assert [(one.n_as_wanted, one.n_beyond, one.broken) for one in found] == [
        (0, 0, {"causal_order": 2}), (0, 0, {"causal_order": 2}), (0, 1, {"exactly_once": 1, "causal_order": 2}),
    ]  # fmt: skip
    once = ranked(rows, settings, {"exactly_once": wants["exactly_once"]}, "messages_per_delivery")
    assert [(one.keeps_all, one.n_as_wanted) for one in once] == [(True, 2), (True, 2), (False, 1)]


def test_fewer_missed_wants_win_over_more_runs_that_miss_none() -> None:
    """One candidate misses all wants in one run of two, the other misses one in each."""
    lost = {"wanted_ratio": 0.5, "n_wanted_delivered": 2, "n_duplicates": 1, "n_source_order_broken": 1}
    kept = {**ROW, "n_causal_order_broken": 0}
    rows = [{**kept, "run_id": 0}, {**ROW, **lost, "run_id": 1}, {**ROW, "run_id": 2}, {**ROW, "run_id": 3}]
    settings = dict(enumerate([{"name": "forwarding"}] * 2 + [{"name": "delta"}] * 2))
    wants = parse_wants("at_least_once, at_most_once, per_source_order, causal_order")
    found = ranked(rows, settings, wants, "messages_per_delivery")
    assert [(one.protocol, one.n_as_wanted) for one in found] == [("delta", 0), ("forwarding", 1)]


def test_candidates_are_the_own_settings_and_the_variants_of_all_protocols() -> None:
    prepared = prepare(LINE, "runs.grid={protocol.delta: [1, 4], overlay.links.0: [[A, B]]}")
    found, refused = with_candidates(prepared)
    settings = [settings_of(run) for run in found.runs]
    own = {"name": "delta", "detection_rounds": 7}
    assert settings[:4] == [{**own, "delta": delta} for delta in (1, 4, 2, 3)]
    assert {"name": "forwarding"} in settings
    assert {"name": "epidemic", "recovery": "push"} in settings
    assert set(found.scenario.runs.grid) == {"protocol", "overlay.links.0"}
    assert set(refused) == {"ginger", "repository", "skipring"}
    assert "clients publish and subscribe" in refused["ginger"]


def with_servers(*at: str) -> tuple[Prepared, dict[str, str]]:
    """Returns the candidates beside repositories at some brokers, or beside Ginger without repositories."""
    clients = {"links": [["A", "B"], ["B", "C"]], "clients": [{"name": "x", "at": "B"}, {"name": "y", "at": "B"}]}
    servers = {"servers": [{"name": f"R{broker}", "at": broker} for broker in at]} if at else {}
    calls = {
        "subscriptions": [{"at": "y", "topic": "t"}],
        "publications": [{"at": "x", "round": 30, "topic": "t", "guarantee": "causal"}],
    }
    own, overlay = {"name": "repository" if at else "ginger"}, {**clients, **servers}
    return with_candidates(prepare({**LINE, "protocol": own, "overlay": overlay, "workload": calls}))


def settings_with(found: Prepared, protocol: str) -> list[dict[str, Any]]:
    every = [settings_of(run) for run in found.runs]
    return [{key: value for key, value in one.items() if key != "name"} for one in every if one["name"] == protocol]


def test_a_variant_that_cannot_run_is_left_out_alone() -> None:
    """Without a server, protocol repository has its baseline only."""
    found, refused = with_servers()
    assert settings_with(found, "repository") == [{"baseline": True}]
    assert "repository" not in refused


def test_sizes_of_bundles_and_view_degrees_are_compared() -> None:
    """A bundle of as many as there are servers is that of all, which is compared once."""
    sizes = [{}, {"bundle_size": 1}, {"bundle_size": 2}]
    for at, n in (("A", 1), ("AB", 2), ("ABC", 3)):
        assert settings_with(with_servers(*at)[0], "repository") == [*sizes[:n], {"baseline": True}]
    degrees = [one["total_degree"] for one in settings_with(with_servers("A")[0], "ginger") if "total_degree" in one]
    assert degrees == [4, 16]


def test_a_grid_of_protocols_is_taken_as_it_is() -> None:
    found, refused = with_candidates(prepare(LINE, "runs.grid.protocol=[{name: delta}, {name: forwarding}]"))
    assert [settings_of(run) for run in found.runs] == [{"name": "delta"}, {"name": "forwarding"}]
    assert refused == {}


def test_a_scenario_that_is_wrong_itself_is_no_candidate() -> None:
    with pytest.raises(ScenarioError, match="'Z'"):
        with_candidates(prepare(LINE, "workload.publications.0.at=Z"))
