"""Runs of several protocols in one store: each protocol's runs are what they are in a store of their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import pipelines as rt
from pipelines.cli.app import app
from pipelines.contract.round import IN_FLIGHT, STATE, state_tables
from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.experiment.build import build_run
from pipelines.experiment.plan import mappings
from pipelines.experiment.prepared import prepare
from pipelines.protocols import PROTOCOLS, protocol_form
from pipelines.result import Result
from pipelines.rounds.progress import Progress
from pipelines.sql.query import StoreReader
from pipelines.sql.views import view_owners
from pipelines.store.store import Store
from pipelines.tables import HISTORY
from pipelines.testing import planted

SCENARIO = """name: several
protocol: {name: forwarding}
overlay:
  links: [[N1, N2], [N2, N3], [N2, N4]]
  servers: {generate: {at: central}}
  clients: {generate: {at: [N1, N3, N4]}}
workload:
  subscriptions: {generate: {kind: topics, topics: 1, nodes: clients}}
  publications:
    - {at: C1, round: 60, topic: topic1, guarantee: causal}
    - {at: C1, round: 80, topic: topic1, guarantee: causal}
    - {at: C2, round: 84, topic: topic1, guarantee: causal}
faults: [{kind: crash, node: N2, round: 82, until: 95}]
time: {rounds: 300}
runs:
  seeds: [0]
  grid: {protocol: [{name: forwarding}, {name: ginger, timer_rounds: 30}, {name: delta, delta: 1}, {name: skipring}]}
engine: local
"""
NAMES = ["forwarding", "ginger", "delta", "skipring"]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several") / "several.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def result(scenario: Path, sail: Session) -> Iterator[Result]:
    sail.activate()
    with rt.run(scenario, sail.spark, scenario.parent / "store", commit_every=50) as found:
        yield found


@pytest.fixture(scope="module")
def alone(scenario: Path, sail: Session) -> Iterator[Result]:
    """The runs of δ in a store of their own, made from what the scenario is for them."""
    parts = yaml.safe_load(scenario.read_text())
    del parts["overlay"]["servers"], parts["runs"]["grid"]
    parts["protocol"] = {"name": "delta", "delta": 1}
    sail.activate()
    with rt.run(parts, sail.spark, scenario.parent / "alone", commit_every=50) as found:
        yield found


def rows(frame_of: rt.Result, table: str, protocol: str | None = None, first_run: int = 0) -> list[str]:
    reader = frame_of.reader if protocol is None else frame_of.reader.of_protocol(protocol)
    found = reader.table(table).toArrow().to_pylist()
    return sorted(str({**row, "run_id": row["run_id"] - first_run} if "run_id" in row else row) for row in found)


def test_a_run_is_of_its_protocol(result: Result) -> None:
    found = result.sql("select protocol, collect_list(seed) as seeds from run group by protocol").collect()
    assert {row.protocol: sorted(row.seeds) for row in found} == {name: [0] for name in NAMES}
    assert [run.parameters["protocol.name"] for run in result.runs] == NAMES
    assert result.reader.protocols == NAMES


def test_a_protocol_reads_its_runs_as_if_it_had_the_store_alone(result: Result, alone: Result) -> None:
    """History, views, and states by the names that its views and audits use."""
    first = result.reader.of_protocol("delta").sql("select min(run_id) as n from run").collect()[0].n
    assert first == 2
    own = [name for name in alone.tables if name not in ("run", "round_commit", "state_call_log")]
    assert set(own) <= set(result.reader.of_protocol("delta").tables())
    assert {"detector_size", "state_peer", "state_message", "violation", "expected_delivery"} <= set(own)
    for name in own:
        assert rows(result, name, "delta", first) == rows(alone, name), name
    assert rows(alone, "state_path")
    assert [(r.verdict, r.within_bound, r.rounds) for r in result.runs[first : first + 1]] == [
        (r.verdict, r.within_bound, r.rounds) for r in alone.runs
    ]


def test_tables_are_apart_where_their_columns_differ(result: Result) -> None:
    tables = state_tables({name: protocol_form(name) for name in NAMES})
    assert {of[IN_FLIGHT].name for of in tables.values()} == {f"{STATE}{name}_message" for name in NAMES}
    assert tables["delta"]["state_delivered"].name == "state_delta_delivered"
    assert tables["ginger"]["state_delivered"].name == "state_ginger_delivered"
    assert tables["ginger"]["state_timer"] == tables["skipring"]["state_timer"]
    assert tables["delta"]["state_path"].name == "state_path"
    stored = {table.name for of in tables.values() for table in of.values()} | {table.name for table in HISTORY}
    assert stored <= set(result.tables)
    runs = "select distinct run_id from {} order by run_id"
    assert [r[0] for r in result.sql(runs.format("state_delta_routing_entry")).collect()] == [2]
    assert [r[0] for r in result.sql(runs.format("state_supervisor")).collect()] == [3]


def test_a_view_of_one_protocol_is_about_its_runs(result: Result) -> None:
    assert {row.run_id for row in result.table("detector_size").collect()} == {2}
    assert {row.run_id for row in result.table("convergence").collect()} == {3}
    assert {row.run_id for row in result.table("node_load").collect()} == set(range(4))
    comments = {row.col_name: row.comment for row in result.sql("describe parameter").collect()}
    assert comments["protocol_delta"].startswith("protocol.delta: ")
    assert "delta: " in comments["protocol_detection_rounds"]
    assert "ginger: " in comments["protocol_detection_rounds"]


def test_a_view_of_another_protocol_is_refused_by_name(result: Result) -> None:
    """A view of history alone, one of states, and one that is computed: `epidemic` and `gossipsub` have no run."""
    told = r"belongs to protocol {}; the store has no run of it, only of forwarding, ginger, delta, skipring;"
    delta = result.reader.of_protocol("delta")
    for name, owner in (("node_retransmission", "epidemic"), ("Cache_Hit", "epidemic"), ("mesh_degree", "gossipsub")):
        assert name.lower() not in result.tables
        for ask in (result.table, lambda view: result.sql(f"select * from {view}")):
            with pytest.raises(QueryError, match=f"view '{name}' {told.format(owner)}"):
                ask(name)
    with pytest.raises(QueryError, match="belongs to protocol skipring; the store has no run of it, only of delta;"):
        delta.table("convergence")
    assert {"fault_end", "reconfiguration", "bypass"} <= set(result.tables)
    assert not {"fault_end", "reconfiguration"} & set(delta.tables())


def test_a_view_of_two_protocols_is_about_the_runs_of_both(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {**view_owners(), "grace": ["ginger", "delta", "epidemic"]}
    monkeypatch.setattr("pipelines.sql.query.view_owners", lambda: owners)
    reader = StoreReader(result.session, result.store)
    assert {row.run_id for row in reader.table("grace").collect()} == {1, 2}


def test_each_protocol_is_held_to_its_own_guarantees(result: Result, tmp_path: Path) -> None:
    """A delivery twice is found in the runs of the protocol in which it happened."""
    assert {run.verdict for run in result.runs} == {"valid"}
    twice = planted(
        Store(result.store, result.session), tmp_path,
        delivery=lambda rows: rows.unionByName(rows.where("run_id = 2")),
    )  # fmt: skip
    with rt.open_store(twice.root, result.session.spark) as other:
        report = other.audit()
        assert other.verdict == report.verdict == "invalid"
        assert [run.run_id for run in other.runs if run.verdict == "invalid"] == [2]
    found = {finding.title: finding.n_violations for finding in report.findings}
    assert {"forwarding: exactly_once", "delta: exactly_once", "ginger: causal_order"} <= found.keys()
    assert not {"forwarding: causal_order", "delta: causal_order"} & found.keys()
    assert [finding.error for finding in report.findings if finding.error] == []
    assert {run.run_id for run in report.runs if not run.within_bound} == {0}
    assert [title for title, number in found.items() if number] == ["delta: exactly_once"]


def test_a_publication_costs_what_the_closed_forms_say(result: Result) -> None:
    """The first one, before the crash: each of the 6 links between the 3 clients once; 3n - 5 on a ring of 3 (K12).

    Ginger's edge broker sends the publisher its own publication back (rule G5).
    """
    found = result.sql("""
select r.protocol, count(1) as n
from message m
join run r on r.run_id = m.run_id
join protocol t on t.name = r.protocol
where array_contains(t.application, m.kind) and m.src <> m.dst and m.sent_round between 60 and 79
group by r.protocol
""").collect()
    assert {row.protocol: row.n for row in found} == {"forwarding": 6, "ginger": 7, "delta": 6, "skipring": 4}


def test_runs_are_compared_by_measures_that_mean_the_same(result: Result, tmp_path: Path) -> None:
    """C2 had C1's second publication, 1 of its calls later, before it published; C3 gets that one after C2's."""
    found = {row.protocol: row for row in result.table("comparison").collect()}
    assert {name: row.n_wanted for name, row in found.items()} == dict.fromkeys(NAMES, 9)
    assert found["delta"].wanted_ratio == found["ginger"].wanted_ratio == 1
    assert found["forwarding"].wanted_ratio < 1
    assert found["forwarding"].acknowledgement_per_delivery == found["forwarding"].recovery_per_delivery == 0
    assert found["delta"].acknowledgement_per_delivery > 0
    assert found["delta"].durable_rows_per_node > found["forwarding"].durable_rows_per_node == 0
    assert found["delta"].durable_bytes_per_node > found["forwarding"].durable_bytes_per_node == 0
    assert found["skipring"].settling_rounds is None
    for row in found.values():
        parts = ("application", "acknowledgement", "control", "recovery")
        assert sum(row[f"{part}_per_delivery"] for part in parts) == pytest.approx(row.messages_per_delivery)
        assert row.n_duplicates == 0
        assert row.held_bytes_per_node >= row.durable_bytes_per_node
        # No row is shorter than {"node_id":0}.
        assert row.held_bytes_per_node > 13 * row.held_rows_per_node
        keeps_order = row.protocol != "skipring"
        assert (row.n_source_order_broken + row.n_causal_order_broken == 0) is keeps_order, row.protocol
    ids = {row.name: row.node_id for row in result.sql("select name, node_id from node where run_id = 0").collect()}
    own = result.sql("select source, source_seq from publication where run_id = 0 order by issued_round").collect()
    first, second, answer = (tuple(row) for row in own)
    made = [
        ("C2", *first, 66), ("C2", *first, 70), ("C2", *second, 82), ("C2", *answer, 84),
        ("C3", *answer, 88), ("C3", *second, 90), ("C3", *first, 92),
    ]  # fmt: skip
    rows = [(0, ids[at], source, seq, round_, 1, 1) for at, source, seq, round_ in made]
    wrong = planted(
        Store(result.store, result.session), tmp_path,
        delivery=lambda old: result.session.spark.createDataFrame(rows, old.schema),
    )  # fmt: skip
    with rt.open_store(wrong.root, result.session.spark) as other:
        row = other.sql("select * from comparison where run_id = 0").collect()[0]
    assert (row.n_deliveries, row.n_duplicates, row.n_wanted_delivered) == (6, 1, 6)
    assert (row.n_source_order_broken, row.n_causal_order_broken, row.n_total_order_broken) == (1, 2, 3)


def test_what_nodes_hold_is_counted_in_rows_and_bytes(result: Result) -> None:
    """The bytes are those of the rows as JSON text."""
    for protocol in ("forwarding", "delta"):
        asked = "select * from held_state where run_id = {} and table_name = 'routing_entry'"
        run = result.sql(f"select min(run_id) as run_id from run where protocol = '{protocol}'").collect()[0].run_id
        [held] = result.sql(asked.format(run)).collect()
        table = result.table(f"state_{protocol}_routing_entry").where(f"run_id = {run}").drop("run_id")
        texts = [row.text for row in table.selectExpr("to_json(struct(*)) as text").collect()]
        assert (held.n_rows, held.n_bytes) == (len(texts), sum(len(text.encode()) for text in texts))


def test_a_run_is_told_by_its_protocol(result: Result) -> None:
    assert "N2 is down" in str(result.why(0, "C2", "C1", seq=2))
    assert "delivered" in str(result.why(1, "C2", "C1", seq=1))
    tables = {row.table_name for row in result.compare_node(2, "N2").collect()}
    assert {"state_peer", "state_routing_entry"} <= tables


def test_a_report_is_of_all_protocols(result: Result, tmp_path: Path) -> None:
    text = result.report(runs=(0, 2), out=tmp_path / "report.html").read_text("utf-8")
    assert ", ".join(NAMES) in text
    assert "delta: exactly_once" in text


def test_a_store_that_was_broken_off_is_resumed(result: Result, scenario: Path, sail: Session, tmp_path: Path) -> None:
    """In the middle of δ's runs, after those of Ginger."""
    seen = [0]

    def stop(progress: Progress) -> None:
        seen.append(progress.round)
        n_batches = 1 + sum(later < earlier for earlier, later in pairwise(seen))
        if n_batches == 3 and progress.round > 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rt.run(scenario, sail.spark, tmp_path / "store", commit_every=50, observe=stop)
    with rt.open_store(tmp_path / "store", sail.spark) as stopped:
        assert {row.run_id for row in stopped.table("sent_message").collect()} <= {0, 1, 2}
        assert {row.run_id for row in stopped.table("state_delta_routing_entry").collect()} == {2}
    with rt.resume(tmp_path / "store", sail.spark) as resumed:
        tables = {name for name in result.tables if name.startswith(STATE)} | {
            "message",
            "delivery",
            "publication",
            "run",
        }
        for name in tables:
            assert rows(resumed, name) == rows(result, name), name


def test_what_a_protocol_cannot_take_is_mapped_by_rule(scenario: Path) -> None:
    told = mappings(prepare(scenario))
    assert "forwarding, ginger, delta: omits 1 server, because it has no servers" in told
    assert "forwarding, delta, skipring: does not guarantee an order that a publication requests: causal" in told
    assert any(line.startswith("skipring: builds its own overlay of 3 clients and a supervisor") for line in told)
    assert "skipring: omits crashes of nodes that it does not have: N2" in told
    built = {run.scenario.protocol.name: build_run(run, None) for run in prepare(scenario).combinations()}
    assert built["skipring"][0].names == ("supervisor1", "C1", "C2", "C3")
    assert built["delta"][0].names == ("N1", "N2", "N3", "N4", "C1", "C2", "C3")
    for overlay, workload, *_ in built.values():
        callers = [overlay.names[node] for node in workload.publication["node_id"].to_pylist()]
        assert callers == ["C1", "C1", "C2"]
    plan = CliRunner().invoke(app, ["plan", str(scenario)]).stdout
    assert all(f"mapping   {line}" in plan for line in told)


def test_who_needs_no_tree_has_all_links_and_the_same_nodes_calls_and_faults(tmp_path: Path) -> None:
    """Beside `delta`, which needs a tree; servers, clients, calls and crashes are those on the tree."""
    path = tmp_path / "s.yaml"
    ring = "generate: {kind: ring, nodes: 5}\n  latency: {uniform: [1, 9]}"
    path.write_text(SCENARIO.replace("links: [[N1, N2], [N2, N3], [N2, N4]]", ring))
    several = "runs.grid.protocol=[{name: repository}, {name: delta}, {name: gossipsub}, {name: flooding}]"
    crashes = "faults=[{generate: {kind: crash, count: 1, nodes: inner, rounds: [62, 80]}}]"
    seeds = "runs.seeds=[0, 1, 2]"
    runs = prepare(path, [several, crashes, seeds]).runs
    built = {(run.scenario.protocol.name, run.seed): build_run(run, None) for run in runs}
    for seed in range(3):
        tree, calls, faults, _ = built["delta", seed]
        assert tree.is_tree
        of_tree = dict(zip(zip(tree.a.tolist(), tree.b.tolist(), strict=True), tree.latency_rounds, strict=True))
        for name in ("gossipsub", "flooding"):
            whole, others, crashed, _ = built[name, seed]
            assert (whole.names, others.subscription, crashed.crash) == (tree.names, calls.subscription, faults.crash)
            ends = [*zip(whole.a.tolist(), whole.b.tolist(), strict=True)]
            assert ends == sorted(ends)
            rounds = dict(zip(ends, whole.latency_rounds, strict=True))
            assert len(rounds) == len(of_tree) + 1
            assert {link: rounds[link] for link in of_tree} == of_tree
        assert len(built["repository", seed][0].a) > len(of_tree)
    [only] = prepare(
        path, ["runs.grid={}", "protocol={name: repository}", "faults=[]", "runs.seeds=[0]"]
    ).combinations()
    assert not build_run(only, None)[0].is_tree


def test_a_tree_that_is_asked_for_is_that_of_all_protocols(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    ring = "generate: {kind: ring, nodes: 5, tree: minimum}"
    path.write_text(SCENARIO.replace("links: [[N1, N2], [N2, N3], [N2, N4]]", ring))
    runs = prepare(path, ["runs.grid.protocol=[{name: delta}, {name: flooding}]", "faults=[]"]).combinations()
    assert all(build_run(run, None)[0].is_tree for run in runs)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("faults=[{kind: crash, node: C1, round: 62, until: 75}]", "C1"),
        ("workload.publications=[{at: N1, round: 60, topic: topic1, guarantee: causal}]", "which has only clients"),
        ("workload.publications=[{at: R1, round: 60, topic: topic1, guarantee: causal}]", "a broker or client"),
        ("workload.publications=[{at: C1, round: 60, topic: topic1}]", "guarantee"),
    ],
)
def test_what_no_rule_maps_is_refused_by_name(scenario: Path, override: str, message: str) -> None:
    found = CliRunner().invoke(app, ["plan", str(scenario), "--set", override])
    assert found.exit_code == 64
    assert "ginger" in found.output
    assert message in found.output


def test_every_order_that_a_protocol_names_is_one_of_scenarios() -> None:
    assert {order for spec in PROTOCOLS.values() for order in spec.orders} <= {"eventual", "causal", "total"}
