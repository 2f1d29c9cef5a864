"""``roundtable hunt``: schedules aimed at a run, findings that are shrunk and kept, a corpus that is replayed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.commands import cli

import pipelines as rt
from pipelines.contract.audit import Audit
from pipelines.engines.session import Session
from pipelines.errors import NodeProgramError, QueryError
from pipelines.experiment.listed import listed_scenario
from pipelines.experiment.prepared import prepare
from pipelines.hunting import Hunt
from pipelines.hunting.findings import Corpus, page
from pipelines.protocols import PROTOCOLS
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store
from udfs.forwarding import Forwarding, RoutingEntry
from udfs.nodes.context import Context

LINE = """name: line
protocol: {name: forwarding}
overlay: {links: [[A, B], [B, C], [C, D]]}
workload:
  subscriptions: [{at: D, round: 0, topic: a}, {at: B, round: 0, topic: a}]
  publications: [{at: A, round: 20, topic: a}, {at: A, round: 30, topic: a}]
time: {rounds: 60}
engine: local
"""


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """A scenario in which every lost message loses a delivery: nothing is sent again."""
    (tmp_path / "line.yaml").write_text(LINE)
    return tmp_path / "line.yaml"


def test_a_hunt_executes_a_job_even_without_time(line: Path, sail: Session) -> None:
    assert rt.hunt(line, 30, minutes=0.0, shrinks=False, spark=sail.spark).n_played == 25


def test_the_stores_of_a_hunt_are_removed_when_the_program_is_killed(
    line: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """They are in the scratch folder of the session, which another process removes."""
    folders: list[tuple[Path, Path]] = []

    def kept(experiment: Experiment, session: Session, store: Store, observe: Callable[[Progress], None]) -> None:
        assert isinstance(store.root, Path)
        folders.append((store.root, session.scratch))
        execute(experiment, session, store, observe)

    monkeypatch.setattr("pipelines.hunting.shrink.execute", kept)
    rt.hunt(line, 1, shrinks=False)
    assert folders
    assert all(store.is_relative_to(scratch) for store, scratch in folders)


@pytest.mark.parametrize("strategy", ["random", "exhaustive"])
def test_a_control_executes_schedules_beyond_the_bound(line: Path, strategy: str, sail: Session) -> None:
    """The protocol tolerates no crash, so a hunt within the bound would skip an aimed form after eight schedules."""
    found = rt.hunt(
        line, 60, within_bound=True, strategy=strategy, shrinks=False, spark=sail.spark  # type: ignore[arg-type]
    )  # fmt: skip
    assert (found.n_played, found.n_beyond > 30) == (60, True)


def test_a_finding_is_shrunk_kept_and_replayed(line: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    done = cli("hunt", line, "--runs", "12", "--corpus", corpus, "--fail-on", "excused", "--json")
    assert done.exit_code == 1
    events = [json.loads(text) for text in done.stdout.splitlines()]
    assert {event["event"] for event in events} == {"note", "hunt", "found"}
    told = events[-1]
    assert told["n_played"] == 12
    assert told["kinds_not_sent"] == ["UNSUB"]
    finding = next(one for one in told["findings"] if one["guarantee"] == "exactly_once")
    assert len(finding["scenario"]["faults"]) == 1
    assert len(finding["scenario"]["workload"]["subscriptions"]) == 1
    assert finding["cause"].startswith("missing: ")
    kept = Path(finding["file"])
    assert kept.read_text().startswith(f"# Breaks exactly_once: {finding['cause']}\n# Found by aiming at: ")
    assert cli("run", kept, "--quiet", "--store", tmp_path / "again", "--fail-on", "excused").exit_code == 1
    page = (corpus / "hunt.html").read_text()
    assert "Kinds that no run sent: UNSUB." in page
    assert finding["cause"].split(";")[0] in page

    replayed = cli("hunt", line, "--runs", "0", "--corpus", corpus, "--fail-on", "excused")
    assert replayed.exit_code == 1
    assert (corpus / "hunt.html").read_text() == page
    assert f"still broken: {kept} breaks" in replayed.stdout
    again = rt.hunt(line, 4, corpus=corpus, excused=True, shrinks=False)
    assert "exactly_once" not in {one.guarantee for one in again.findings}  # the corpus has it
    mended = cli("hunt", line, "--runs", "0", "--corpus", corpus)  # excused violations are none now
    assert mended.exit_code == 0
    assert mended.stdout.splitlines()[-1].endswith("replayed, 0 still broken")


def test_a_protocol_that_bears_crashes_has_no_finding(tmp_path: Path, sail: Session) -> None:
    """Within δ nothing is broken; the aims on loss go beyond the bound and end after some probes."""
    (tmp_path / "s.yaml").write_text(LINE.replace("name: forwarding", "name: delta, delta: 1"))
    seen: list[Hunt] = []
    found = rt.hunt(tmp_path / "s.yaml", 150, within_bound=True, spark=sail.spark, observe=seen.append)
    assert (found.findings, found.n_undecided) == ((), 0)
    assert found.n_played == seen[-1].n_played == 150
    assert 0 < found.n_beyond < 100
    assert {"CON_REQUEST VALID_JOINED delivered", "DETECT VALID_JOINED delivered", "fault crash"} <= found.features
    assert "DETECT" not in found.unreached
    assert len(found.features) == seen[-1].n_features > seen[0].n_features
    assert repr(found) == "150 schedules of delta: 0 findings"


@pytest.mark.spark
def test_a_hunt_on_executors_finds_the_same(line: Path) -> None:
    found, local = (rt.hunt(line, 12, excused=True, shrinks=False, engine=engine) for engine in ("spark", "local"))
    assert found.n_played == local.n_played == 12
    assert found.features == local.features
    told, here = ({(one.guarantee, one.cause, one.n_played, one.aims) for one in of.findings} for of in (found, local))
    assert told == here != set()


def test_a_hunt_ends_with_its_first_finding(line: Path, sail: Session) -> None:
    found = rt.hunt(line, 1000, excused=True, until_found=True, shrinks=False, spark=sail.spark)
    assert found.n_played == 25  # the first job
    assert {one.sizes for one in found.findings} == {"not shrunk"}


def test_a_handler_that_fails_is_a_finding(line: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node handles no publication that is late; the other schedules of the job are played all the same."""
    deliver = Context.deliver

    def fails(self: Context, *given: Any) -> None:
        assert self.round <= 33, "too late"
        deliver(self, *given)

    monkeypatch.setattr(Context, "deliver", fails)
    monkeypatch.setattr("pipelines.rounds.blocks.n_workers_of", lambda _: 0)
    found = rt.hunt(line, 25, corpus=tmp_path / "c", shrinks=False, strategy="random")
    [one] = [one for one in found.findings if one.guarantee == "program_fails"]
    assert "too late" in one.cause
    assert one.file is not None
    assert found.n_played == 25
    assert "resume" not in one.cause  # a hunt keeps no store


def test_a_record_that_cannot_be_stored_is_a_finding(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stores(self: Forwarding, ctx: Context) -> None:
        if ctx.round > 33:
            self.routing_entry[99] = RoutingEntry(98, 0)

    monkeypatch.setattr(Forwarding, "on_round_end", stores)
    monkeypatch.setattr("pipelines.rounds.blocks.n_workers_of", lambda _: 0)
    found = rt.hunt(line, 25, shrinks=False, strategy="random")
    [one] = [one for one in found.findings if one.guarantee == "program_fails"]
    assert re.search(
        r"run \d+, node \d+, up to round \d+: the program keeps .* under the key 99; allowed: its key 98", one.cause
    )
    assert found.n_played == 25


def test_a_handler_that_fails_in_a_smaller_scenario_is_no_finding(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subscribers B and D have ids 1 and 3; without A or C they have lower ids, and the handler fails."""
    deliver = Context.deliver

    def fails(self: Context, *given: Any) -> None:
        assert self.node in (1, 3)
        deliver(self, *given)

    monkeypatch.setattr(Context, "deliver", fails)
    monkeypatch.setattr("pipelines.rounds.blocks.n_workers_of", lambda _: 0)
    found = rt.hunt(line, 12, excused=True)
    assert found.n_played == 12
    assert "exactly_once" in {one.guarantee for one in found.findings}
    assert "program_fails" not in {one.guarantee for one in found.findings}
    assert {one.sizes for one in found.findings}.isdisjoint({"not broken when executed alone", "not shrunk"})


def test_a_handler_that_fails_without_a_schedule_ends_the_hunt(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Context, "deliver", fails)
    monkeypatch.setattr("pipelines.rounds.blocks.n_workers_of", lambda _: 0)
    told = r"fails without a schedule; correct it first: protocol forwarding, run 0.*planted"
    with pytest.raises(NodeProgramError, match=told):
        rt.hunt(line, 5)


def test_findings_with_the_same_scenario_share_a_file(tmp_path: Path) -> None:
    parts = {"name": "one", "protocol": {"name": "forwarding"}}
    first, second = (Corpus(tmp_path).keep(parts, "exactly_once", cause, ["a loss"]) for cause in ("lost", "late"))
    assert first == second
    assert first is not None
    assert first.read_text().startswith("# Breaks exactly_once: lost\n")


def test_a_hunt_tells_how_many_schedules_are_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six rounds are too few for a skip ring to converge, so no guarantee is decided; runs with further seeds count."""
    path = tmp_path / "short.yaml"
    path.write_text(
        "name: short\nprotocol: {name: skipring, start: arbitrary}\noverlay: {nodes: {count: 4, supervisors: 1}}\n"
        "workload: {subscriptions: [{at: N1, topic: a}, {at: N2, topic: a}, {at: N3, topic: a}]}\n"
        "time: {rounds: 6}\nengine: local\n"
    )
    corpus = tmp_path / "corpus"
    done = cli("hunt", path, "--runs", "8", "--corpus", corpus, "--json")
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["n_played"], told["n_decided"], told["n_undecided"], told["findings"]) == (8, 0, 8, [])
    assert done.exit_code == 2
    assert "<td>not decided within the bound</td><td>8</td>" in (corpus / "hunt.html").read_text()
    found = rt.hunt(path, 2)
    assert repr(found) == "2 schedules of skipring: 0 findings, 2 not decided"
    monkeypatch.setattr("pipelines.hunting.hunt", lambda *_, **__: found)
    assert ", 2 not decided, " in cli("hunt", path, "--runs", "2").stdout.splitlines()[-1]


def test_a_hunt_names_an_audit_that_fails(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its name, runs would be undecided for no visible reason."""
    wrong = Audit("wrong", "an audit with an error", "select no_column from message")
    known = replace(PROTOCOLS["forwarding"], audits=(*PROTOCOLS["forwarding"].audits, wrong))
    monkeypatch.setattr(sys.modules["pipelines.hunting.hunt"], "protocol_named", lambda _: known)
    told: list[str] = []
    found = rt.hunt(line, 5, shrinks=False, say=told.append)
    assert found.failed_audits.keys() == {"wrong"}
    assert "no_column" in found.failed_audits["wrong"]
    assert [text for text in told if text.startswith("audit wrong failed")]
    assert "the scenario itself is not decided, see roundtable audit; give it more rounds" in told
    assert "\nwrong: not checked, " in repr(found)
    assert "<td>audit wrong failed</td>" in page(found)
    assert found.n_decided == 0


def test_an_exhaustive_hunt_tells_how_many_schedules_there_are(line: Path) -> None:
    told: list[str] = []
    found = rt.hunt(line, 1000, strategy="exhaustive", crashes=1, window=(18, 20), say=told.append)
    assert "12 schedules of up to 1 crashes in rounds 18 to 20" in told
    assert found.n_played == found.n_beyond == 12
    down = ("--set", "faults=[{kind: crash, node: B, round: 18, until: 40}]")
    done = cli("hunt", line, "--strategy", "exhaustive", "--crashes", "1", "--window", "18:20", *down)
    last = done.stdout.splitlines()[-1]
    assert "0 findings: 9 schedules, 9 beyond the bound, 0 not decided, 3 more refused, " in last


def test_a_hunt_whose_schedules_are_all_refused_says_so(line: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pipelines.hunting.hunt"], "_MOST_REFUSED", 5)
    told: list[str] = []
    down = [f"faults=[{','.join(f'{{kind: crash, node: {node}, round: 18, until: 40}}' for node in 'ABCD')}]"]
    found = rt.hunt(line, 9, strategy="exhaustive", window=(18, 20), overrides=down, say=told.append)
    assert (found.n_played, found.n_refused) == (0, 5)
    assert told[-1] == "the hunt ends: 5 successive schedules were rejected"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--strategy", "guidet"], "did you mean 'guided'?"),
        (["--strategy", "exhaustive", "--window", "9:3"], "'9:3' ends before it begins"),
        (["--strategy", "exhaustive", "--window", "9:61"], "ends in round 61, after the horizon; allowed: up to 60"),
        (["--strategy", "exhaustive", "--window", "9:"], "--window has no last round"),
        (["--corpus", "line.yaml"], "is a file; name a folder"),
        (["--set", "workload.publications=[]", "--set", "workload.subscriptions=[]"], "sends no message to aim at"),
    ],
)
def test_wrong_hunts_say_what_to_change(
    line: Path, monkeypatch: pytest.MonkeyPatch, options: list[Any], message: str
) -> None:
    monkeypatch.chdir(line.parent)
    done = cli("hunt", line, "--runs", "5", *options)
    assert done.exit_code in (2, 64)
    assert message in done.stderr


def test_a_scenario_that_breaks_a_guarantee_as_it_is_is_refused(line: Path) -> None:
    with pytest.raises(QueryError, match=r"breaks .* as it is"):
        rt.hunt(line, 5, excused=True, overrides="faults=[{kind: crash, node: B, round: 25}]")


def test_a_hunt_that_tests_nothing_within_the_bound_is_unknown(line: Path) -> None:
    """Any crash exceeds the fault model of forwarding."""
    done = cli("hunt", line, "--runs", "3", "--strategy", "exhaustive", "--crashes", "1")
    assert done.exit_code == 2


TREES = """name: trees
protocol: {name: forwarding}
overlay: {generate: {kind: random_tree, nodes: 5}}
workload:
  subscriptions: {generate: {kind: topics, nodes: all, topics: 1}}
  publications: {generate: {kind: topics, nodes: 2, rounds: [20, 30], rate: 0.3, topics: 1}}
time: {rounds: 60}
runs: {seeds: {count: 4}}
engine: local
"""


def test_a_hunt_takes_the_runs_of_the_scenario(tmp_path: Path, sail: Session) -> None:
    """Each run has a tree and a workload of its own; its schedules target its own nodes and messages."""
    (tmp_path / "trees.yaml").write_text(TREES)
    told: list[str] = []
    found = rt.hunt(
        tmp_path / "trees.yaml", 60, excused=True, shrinks=False, corpus=tmp_path / "corpus", spark=sail.spark,
        say=told.append,
    )  # fmt: skip
    assert found.n_played == 60
    assert [text for text in told if text.endswith(" in 4 runs")]
    first_aims = [one.aims[0] for one in found.findings]
    assert first_aims
    assert {aim.split("(")[1].split(")")[0].split(", ")[1] for aim in first_aims} <= {f"run {n}" for n in range(4)}
    prepared = prepare(TREES)
    listed = [listed_scenario(run, prepared.beside) for run in prepared.runs]
    for one in found.findings:
        of_run = listed[int(one.aims[0].split("run ")[1][0])]
        assert [one.scenario[part] for part in ("overlay", "workload", "runs")] == [
            of_run[part] for part in ("overlay", "workload", "runs")
        ]  # fmt: skip
        assert one.file is not None
        assert cli("run", one.file, "--quiet", "--store", tmp_path / one.file.stem, "--fail-on", "excused").exit_code


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["runs.seeds={count: 5}"], "2 kinds of messages, 6 messages to aim at"),  # all runs are equal
        (["runs.grid={protocol.name: [forwarding, skipring]}"], "runs of protocols other than forwarding are not"),
        (
            ["runs={seeds: {count: 120}}", "overlay={generate: {kind: random_tree, nodes: 4, prefix: N}}",
             "workload={publications: [{at: N1, round: 3, topic: a}], subscriptions: [{at: N4, round: 0, topic: a}]}"],
            "the scenario has 120 runs; the first 100 are hunted",
        ),
    ],
)  # fmt: skip
def test_a_hunt_tells_which_runs_it_takes(line: Path, changes: list[str], told: str, sail: Session) -> None:
    lines: list[str] = []
    rt.hunt(
        line, 150, minutes=0.0, excused=True, shrinks=False, spark=sail.spark, overrides=changes, say=lines.append
    )  # fmt: skip
    assert [text for text in lines if text.startswith(told)], lines


def test_a_run_that_breaks_a_guarantee_without_a_schedule_is_a_finding(line: Path) -> None:
    """In run 0 links lose messages only before the second publication, in run 1 also this publication."""
    losses = ["faults=[{kind: loss, rate: 1.0, round: 26, until: 28}]", "runs.grid={faults.0.until: [28, 35]}"]
    found = rt.hunt(line, 1, excused=True, shrinks=False, overrides=losses)
    assert ("exactly_once", ("run 1",), 1) in {(one.guarantee, one.aims, one.n_played) for one in found.findings}


def test_a_hunt_takes_each_run_once_and_within_the_bound_none_beyond_it(line: Path) -> None:
    """The crash exceeds δ = 0. Seeds change nothing, so there is one run for each δ."""
    changes = [
        "protocol={name: delta, delta: 0}", "faults=[{kind: crash, node: C, round: 50, until: 52}]",
        "runs={seeds: [1, 2], grid: {protocol.delta: [0, 1, 2]}}",
    ]  # fmt: skip
    told: list[str] = []
    within = rt.hunt(line, 8, within_bound=True, shrinks=False, overrides=changes, say=told.append)
    assert told[0] == "1 run beyond the bound without a schedule: not hunted"
    assert told[1].endswith(" to aim at in 2 runs")
    assert within.n_played == 8
    told.clear()
    rt.hunt(line, 5, minutes=0.0, shrinks=False, overrides=changes, say=told.append)
    assert told[0].endswith(" to aim at in 3 runs")
