"""The study of epidemic recovery on a small grid, and recovery on a real network with measured latencies."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.real_data import shared_data

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.notebooks import epidemic_study as study
from pipelines.why import Question, stories

ROOT = Path(__file__).parents[2]
SMALL = (
    "overlay.generate.nodes=10",
    "protocol.push_rounds=15",
    "protocol.lost_rounds=20",
    "workload.publications.generate.rounds=[14, 24]",
    "workload.publications.generate.rate=1.5",
    "runs.seeds=[1]",
    "runs.grid={protocol.recovery: [none, push, combined_pull], faults.0.rate: [0.15], protocol.buffer: [5, 45]}",
)


@pytest.fixture(scope="module")
def real(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> rt.Result:
    matrix = shared_data("latency", "planetlab490", "PlanetLabData_1.gz")
    overrides = (f"overlay.latency={{matrix: {matrix}}}", "runs.grid={protocol.recovery: [none, combined_pull]}")
    scenario = ROOT / "conf" / "scenarios" / "epidemic_abilene.yaml"
    return rt.run(scenario, spark=sail.spark, store=tmp_path_factory.mktemp("real") / "store", overrides=overrides)


def test_the_study_measures_and_draws_every_strategy(sail: Session, tmp_path: Path) -> None:
    result = rt.run(study.SCENARIO, store=tmp_path / "store", overrides=SMALL, spark=sail.spark)
    found = study.measures(result)
    share = found["delivery"].set_index(["strategy", "buffer"]).ratio
    assert share["none", 5] == share["none", 45] < 1.0
    for strategy in ("push", "combined_pull"):
        assert share["none", 45] < share[strategy, 45] <= 1.0
    assert {"push", "combined_pull"} == set(found["latency"].strategy)
    written = study.write(study.pictures(found), tmp_path / "pictures")
    assert {path.stem for path in written} == {
        "delivery", "delivery_over_time", "recovery_latency", "cache_hits", "overhead_gossip",
        "overhead_retransmissions",
    }  # fmt: skip
    for path in written:
        shown = "values: push, combined_pull" if path.stem == "recovery_latency" else "recovery: combined_pull"
        assert shown in path.read_text("utf-8"), path


def test_real_links_have_measured_latencies_and_the_outage_is_pulled_back(real: rt.Result) -> None:
    assert real.verdict == "valid"
    assert not any(run.within_bound for run in real.runs)
    latencies = {row.latency_rounds for row in real.table("link").collect()}
    assert len(latencies) > 2
    [missed] = real.sql(
        """select count_if(run_id = 0 and delivery_round is null) as without,
          count_if(run_id = 1 and delivery_round is null) as with_pulls,
          count_if(run_id = 1 and delivery_round >= 60 and publication_round < 60 and name = 'Indianapolis') as back
        from wanted_delivery
        join (select run_id as r, node_id, name from node) on r = run_id and node_id = subscriber"""
    ).collect()
    assert missed.with_pulls < missed.without
    assert missed.back > 0


def test_views_of_recovery_fit_each_other(real: rt.Result) -> None:
    [row] = real.sql(
        """select (select count(1) from recovery_latency) as n_recovered,
          (select sum(n_retransmissions) from recovery_overhead) as n_sent,
          (select sum(n_retransmissions) from node_retransmission) as n_by_node,
          (select sum(n_found) from cache_hit) as n_found,
          (select count(1) from sent_message where kind = 'REPLY') as n_replies,
          (select min(latency_rounds) from recovery_latency) as fastest"""
    ).collect()
    assert 0 < row.n_recovered <= row.n_sent == row.n_by_node == row.n_found == row.n_replies
    assert row.fastest >= 2


def test_pushes_and_pulls_bring_what_a_changing_tree_lost_and_why_tells_who_did(sail: Session, tmp_path: Path) -> None:
    overrides = (
        "workload.publications.generate.rounds=[15, 25]",
        "protocol.push_rounds=12",
        "protocol.lost_rounds=12",
        "faults.0.generate.rounds=[16, 22]",
        "runs.grid={protocol.recovery: [none, push_pull]}",
    )
    scenario = ROOT / "conf" / "scenarios" / "epidemic_mobile.yaml"
    result = rt.run(scenario, spark=sail.spark, store=tmp_path / "store", overrides=overrides)
    assert result.verdict == "valid"
    assert not any(run.within_bound for run in result.runs)
    changes = result.sql("select count(1) from fault_event where kind = 'link' and run_id = 0").collect()
    assert [tuple(row) for row in changes] == [(2 * 5,)]
    query = "select run_id, sum(n_wanted), sum(n_delivered) from delivery_over_time group by run_id order by run_id"
    (_, wanted, without), (_, _, recovered) = result.sql(query).collect()
    assert without < recovered <= wanted
    [brought] = result.sql("select * from recovery_latency order by delivery_round, message_id limit 1").collect()
    [story] = stories(result.reader, [Question(1, brought.subscriber, brought.source, brought.source_seq)])
    assert story.ended == "delivered"
    assert "as REPLY) in round" in str(story)
