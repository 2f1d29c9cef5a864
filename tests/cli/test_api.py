"""Roundtable from Python."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import pipelines as rt
from pipelines.cli.app import app
from pipelines.contract.forms import AskedForm
from pipelines.engines.session import Session
from pipelines.errors import ArgumentError, EngineError, QueryError, ScenarioError, StoreError
from pipelines.rounds.progress import Progress

SCENARIO = """name: small
protocol: {name: delta}
overlay: {links: [[A, B], [B, C]]}
workload:
  subscriptions: [{at: C, round: 0, topic: a}]
  publications: [{at: A, round: 20, topic: a}]
time: {rounds: 100}
engine: local
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    return tmp_path / "s.yaml"


@pytest.fixture(scope="module")
def finished(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the scenario, with a valid run."""
    store = tmp_path_factory.mktemp("finished") / "out"
    rt.run(SCENARIO, sail.spark, store).close()
    return store


@pytest.fixture
def out(scenario: Path, finished: Path) -> None:
    """A copy of the finished store in the working directory."""
    shutil.copytree(finished, "out")


def test_a_run_gives_its_verdict_tables_and_answers(scenario: Path, sail: Session) -> None:
    seen: list[Progress] = []
    overrides = ["runs.seeds=[3, 4]", "runs.grid={protocol.delta: [0, 2]}"]
    with rt.run(scenario, spark=sail.spark, store="out", overrides=overrides, observe=seen.append) as result:
        assert result.verdict == "valid"
        assert result.store == Path("out")
        assert [(run.run_id, run.seed, run.parameters["protocol.delta"]) for run in result.runs] == [
            (0, 3, 0), (1, 4, 0), (2, 3, 2), (3, 4, 2),
        ]  # fmt: skip
        # A to C takes two rounds, the confirmation two more.
        assert {(run.verdict, run.within_bound, run.rounds) for run in result.runs} == {("valid", True, 24)}
        assert result.violations.count() == 0
        assert result.table("delivery").count() == 4
        assert result.table("delivery", as_of_round=21).count() == 0
        assert result.sql("select max(hops) as hops from delivery").collect()[0].hops == 2
        with pytest.raises(QueryError, match="did you mean 'delivery'"):
            result.table("delivry")
    assert seen[-1].n_in_flight == 0
    assert [progress.round for progress in seen] == sorted({progress.round for progress in seen})


def test_a_run_logs_what_happens_and_shows_its_verdict(
    scenario: Path, sail: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "roundtable")
    mistyped = SCENARIO.replace("{at: A, round: 20, topic: a}", "{at: A, round: 20, topic: b}")
    for text, verdict in ((SCENARIO, "valid"), (mistyped, "unknown")):
        caplog.clear()
        with rt.run(text, spark=sail.spark, store=f"logged_{verdict}") as result:
            shown = f"1 run: {verdict}; history in logged_{verdict}"
            report = repr(result.audit()).splitlines()
        records = [record for record in caplog.records if record.name == "roundtable"]
        assert repr(result) == records[-1].getMessage() == shown
        assert records[-1].levelname == ("INFO" if verdict == "valid" else "WARNING")
        assert "building 1 run" in [record.getMessage() for record in records if record.levelname == "INFO"]
        assert any(one.getMessage().startswith("round 2") for one in records if one.levelname == "DEBUG")
        assert report[0].startswith(f"{verdict}: 1 run, ")
        assert len(report) == 1


def test_a_report_names_guarantees_that_do_not_hold(scenario: Path, sail: Session) -> None:
    lost = SCENARIO.replace("engine: local", "faults: [{kind: crash, node: B, round: 15}]").replace(
        "delta}", "delta, delta: 0}"
    )
    with rt.run(lost, spark=sail.spark, store="lost") as result:
        head, *rest = repr(result.audit()).splitlines()
    assert head.startswith("valid: 1 run, ")
    assert "exactly_once: 0 violations, 1 excused" in rest


def test_a_scenario_is_a_file_a_name_a_text_or_a_dict(scenario: Path, sail: Session) -> None:
    given: list[str | dict[str, Any]] = [str(scenario), SCENARIO, yaml.safe_load(SCENARIO)]  # elsewhere also a path
    for place, one in enumerate(given):
        with rt.run(one, sail.spark, f"out{place}", overrides="protocol.delta=0") as result:
            assert result.to_pandas("select latency_rounds from delivery").latency_rounds.tolist() == [2]
            assert result.to_pandas("parameter").protocol_delta.tolist() == [0]
            assert result.runs[0].verdict == "valid"
    with pytest.raises(ScenarioError, match=r"<scenario>:2:18: .*did you mean 'delta'"):
        rt.run({"name": "small", "protocol": {"name": "detla"}, "overlay": {"links": [["A", "B"]]}})
    with pytest.raises(ScenarioError, match=r"installed scenario of this name exists; did you mean 'quickstart'"):
        rt.run("quickstrat")
    with pytest.raises(ScenarioError, match=r"xx\.\.\. \(5,000 characters\): the file cannot be read \(File name"):
        rt.run("x" * 5000)
    with pytest.raises(rt.RoundtableError, match=r"spark is 'local', not a Spark session; engine=... names"):
        rt.run(SCENARIO, "local")  # type: ignore[arg-type]


def test_a_result_shows_itself(scenario: Path, sail: Session) -> None:
    seeds = ["runs={seeds: {count: 22}}"]
    with rt.run(scenario, sail.spark, "out", overrides=seeds) as result:
        assert {"delivery", "result", "state_routing_entry"} <= set(result.tables)
        rows = result.summary()
        assert rows.run_id.tolist() == list(range(22))
        assert set(rows.verdict) == {"valid"}
        shown = result._repr_html_()
        assert "22 runs: valid; history in out" in shown
        assert "2 more runs" in shown
        assert shown.count("<tr") == 21
        assert "latency (rounds of 10 ms)" in result.plot("latency", 3).svg
        with pytest.raises(QueryError, match="measure 'latncy' does not exist; did you mean 'latency'"):
            result.plot("latncy")


def test_the_callers_session_goes_on(scenario: Path, sail: Session) -> None:
    sail.spark.range(3).createOrReplaceTempView("mine")
    with rt.run(str(scenario), sail.spark, "out"):
        pass
    with rt.open_store("out", sail.spark) as result:
        assert result.session.spark is sail.spark
        assert result.verdict == "valid"
    assert sail.spark.sql("select count(1) as n from mine").collect()[0].n == 3


@pytest.mark.usefixtures("out")
def test_a_closed_result_says_that_it_is_closed() -> None:
    result = rt.open_store("out")
    result.close()
    for answer in (result.summary, result.audit, lambda: result.table("run"), lambda: result.sql("select 1")):
        with pytest.raises(EngineError, match="the engine is stopped, because the result was closed"):
            answer()


@pytest.mark.slow
def test_a_classic_session_of_the_caller_is_used_as_it_is(scenario: Path, spark: Session) -> None:
    with rt.run(scenario, spark.spark, "out", engine="local") as result:
        assert result.verdict == "valid"
        assert [row.engine for row in result.table("run").collect()] == ["spark"]
    assert spark.spark.range(3).count() == 3


@pytest.mark.usefixtures("out")
def test_questions_go_to_sail_unless_an_engine_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def opened(engine: str, *_: object, **__: object) -> Session:
        asked.append(engine)
        raise EngineError("not now")

    monkeypatch.setenv("ROUNDTABLE_ENGINE", "connect")
    monkeypatch.setattr("pipelines.api.open_session", opened)
    for options in ((), ("--engine", "spark")):
        assert CliRunner().invoke(app, ["sql", "out", "select 1", *options]).stderr == "error: not now\n"
    CliRunner().invoke(app, ["run", "s.yaml", "--store", "other"])
    assert asked == ["local", "spark", "connect"]


def test_a_small_job_on_spark_is_told_of_sail(scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> Session:
        raise EngineError("not now")

    monkeypatch.setattr("pipelines.api.open_session", opened)
    monkeypatch.setattr("pipelines.api.running_session", lambda: None)
    told = "starting Spark; a job of this size takes seconds with --engine local"
    for engine, is_told in (("spark", True), ("connect", False)):
        result = CliRunner().invoke(app, ["run", "s.yaml", "--engine", engine])
        assert (told in result.stderr.splitlines()) == is_told


@pytest.mark.parametrize(("form", "is_small"), [("program", True), ("dataflow", False)])
def test_the_jvm_compiles_less_for_node_programs(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, form: AskedForm, is_small: bool
) -> None:
    asked: list[bool] = []

    def opened(*_: object, is_small: bool, **__: object) -> Session:
        asked.append(is_small)
        raise EngineError("not now")

    monkeypatch.setattr("pipelines.api.open_session", opened)
    monkeypatch.setattr("pipelines.api.FEW_ROWS", -1)
    with pytest.raises(EngineError, match="not now"):
        rt.run(scenario, engine="spark", form=form)
    assert asked == [is_small]


def test_without_a_store_there_is_a_folder_for_each_run_and_a_link_to_the_newest(scenario: Path, sail: Session) -> None:
    stores = []
    for _ in range(2):
        with rt.run(scenario, sail.spark) as result:
            stores.append(result.store)
    assert len(set(stores)) == 2
    assert {store.parent for store in stores} == {Path("runs/small")}
    assert Path("runs/small/latest").resolve() == stores[1].resolve()
    assert sorted(path.name for path in Path("runs/small").iterdir()) == sorted(
        [*(store.name for store in stores), "latest"]
    )
    with rt.open_store("runs/small/latest", sail.spark) as result:
        assert result.verdict == "valid"


def test_errors_of_the_input_write_nothing(scenario: Path, sail: Session) -> None:
    for overrides, words in (
        (["protocol.dleta=1"], "did you mean 'delta'"),
        (["overlay={file: {path: none.csv}}", "workload={}"], "none.csv"),
        (["runs.grid={protocol.name: [delta, forwardin]}"], "did you mean .forwarding."),
    ):
        with pytest.raises(ScenarioError, match=words):
            rt.run(scenario, sail.spark, "out", overrides=overrides)
    with pytest.raises(EngineError, match="did you mean 'local'"):
        rt.run(scenario, engine="locla", store="out")  # type: ignore[arg-type]  # what is tested
    assert [path.name for path in scenario.parent.iterdir()] == ["s.yaml"]


def test_a_folder_that_is_no_store_is_refused(scenario: Path, sail: Session) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        rt.open_store("out", sail.spark)
    with pytest.raises(StoreError, match="is not empty"):
        rt.run(scenario, sail.spark, scenario.parent)


def stopped(scenario: Path, sail: Session, last_round: int) -> None:
    """Begins a run in folder ``out``, and interrupts it after ``last_round``."""

    def stop(progress: Progress) -> None:
        if progress.round > last_round:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rt.run(scenario, sail.spark, "out", commit_every=1, observe=stop)


def test_several_queries_of_a_store_that_grows_read_one_commit(scenario: Path, sail: Session) -> None:
    query = "select max(round) as last from round_metric"
    stopped(scenario, sail, 20)
    with rt.open_store("out", sail.spark) as result:
        with result.reader.at_one_commit(), result.reader.at_one_commit():
            before = result.sql(query).collect()
            rt.resume("out", sail.spark).close()
            assert result.sql(query).collect() == before
        assert result.sql(query).collect() > before


def test_a_store_of_unfinished_runs_is_open_to_questions_but_not_decided(scenario: Path, sail: Session) -> None:
    stopped(scenario, sail, 20)
    with rt.open_store("out", sail.spark) as result:
        assert result.verdict == "unknown"
        assert result.sql("select count(1) as n from run").collect()[0].n == 1
        with pytest.raises(StoreError, match="not finished: 20 is the last complete round"):
            result.audit()
    assert CliRunner().invoke(app, ["audit", "out"]).exit_code == 2
    told = json.loads(CliRunner().invoke(app, ["audit", "out", "--json"]).stdout)
    assert (told["verdict"], told["last_round"]) == ("unknown", 20)
    why = CliRunner().invoke(app, ["why", "out"]).stdout
    assert "but the runs are not finished: round 20 is the last" in " ".join(why.split())


@pytest.mark.parametrize("number", ["commit_every", "batch_runs", "rounds_per_job"])
def test_numbers_below_one_are_refused_before_anything_is_written(scenario: Path, number: str) -> None:
    for value in (0, np.int64(-1)):
        with pytest.raises(ScenarioError, match=rf"{number} is .*; allowed: a whole number, 1 or more"):
            rt.run(scenario, store="out", **{number: value})  # type: ignore[arg-type]
    assert not Path("out").exists()
    for given, told in (({"runs": -3}, "runs is -3"), ({"seed": -1}, "seed is -1")):
        with pytest.raises(QueryError, match=f"{told}; allowed: a whole number, 0 or more"):
            rt.hunt(scenario, **given)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="minutes is -1; allowed: 0 or more"):
        rt.hunt(scenario, minutes=-1)
    with pytest.raises(QueryError, match="strategy random has no window of rounds; leave window out, or choose exh"):
        rt.hunt(scenario, strategy="random", window=(3, 9))


def test_a_folder_does_not_hide_an_installed_scenario(scenario: Path) -> None:
    Path("quickstart").mkdir()
    assert CliRunner().invoke(app, ["validate", "quickstart"]).exit_code == 0


@pytest.mark.usefixtures("out")
def test_questions_about_a_run_that_does_not_exist_are_refused() -> None:
    for command in (["why", "out", "--run", "7"], ["shrink", "out", "--run", "7"]):
        told = CliRunner().invoke(app, command)
        assert "run 7 does not exist" in " ".join(told.stderr.split()), command


FRAME = pd.DataFrame({"a": [1, 2]})


@pytest.mark.usefixtures("out")
@pytest.mark.parametrize(
    ("function", "valid", "wrong"),
    [
        (rt.run, {"scenario": SCENARIO, "engine": "local"}, {
            "scenario": (5, None, b"s.yaml", ["s.yaml"], FRAME), "store": (7, True, b"out", ["out"], FRAME),
            "engine": (7, [], FRAME), "overrides": (None, 5, [5], {"a": "b"}, FRAME), "observe": (7, "x"),
            "form": (True, []), "commit_every": (2.5, True, "3"), "batch_runs": ([],), "rounds_per_job": (FRAME,),
        }),
        (rt.open_store, {"path": "out"}, {"path": (7, None, [], b"out", FRAME), "engine": (7, [])}),
        (rt.resume, {"path": "out"}, {"path": (7, None, [], FRAME), "observe": (7,)}),
        (rt.compare, {"scenario": SCENARIO, "engine": "local"}, {
            "scenario": (7, FRAME), "want": (7, None, ["exactly_once"]), "minimise": (None, ["messages"]),
            "store": (7, FRAME), "observe": ([],), "say": (None, 7),
        }),
        (rt.hunt, {"scenario": SCENARIO, "engine": "local", "runs": 0, "strategy": "exhaustive"}, {
            "scenario": (7, FRAME), "runs": (2.5, "9", True), "minutes": ("9", True), "within_bound": ("no", None),
            "corpus": (5, ["a"]), "strategy": (5, FRAME), "seed": (0.5, None), "window": (5, (5,), (1, "a"), "ab"),
            "crashes": ("1",), "shrinks": (FRAME,), "say": (None,),
        }),
        ("table", {"name": "run"}, {"name": (7, None, ["run"], b"run", FRAME), "as_of_round": (2.5, "3", True, [3])}),
        ("sql", {"text": "select 1"}, {"text": (7, None, b"select 1", FRAME), "as_of_round": ("10", FRAME)}),
        ("to_pandas", {"query": "run"}, {"query": (7, None, Path("run"))}),
        ("to_arrow", {"query": "run"}, {"query": (["run"],), "as_of_round": (0.0,)}),
        ("compare_node", {"run_id": 0, "node": "B"}, {"run_id": (True, "0", None), "node": (b"B", 1)}),
        ("why", {"run_id": 0, "subscriber": "C", "source": "A", "seq": 1}, {
            "run_id": (True, 0.0), "subscriber": (3,), "source": (None, ["A"]), "seq": (1.5, "1"), "call": (True,),
        }),
        ("lost_by_moves", {}, {"run_id": ("0", [0])}),
        ("report", {}, {
            "runs": (0, None, "0", [0.5], [False], np.array([[0]])), "first_round": (None, 1.5), "last_round": ("9",),
            "out": (5, b"r.html"),
        }),
        ("replay", {}, {"run_id": ([0], None), "last_round": (2.5,)}),
        ("space_time", {"node": "B"}, {
            "node": (["B"], 1), "call": ("1",), "rounds": (5, (5,), (1, 2, 3), "59", (1, None)),
        }),
        ("plot", {"name": "latency"}, {"name": (["latency"], FRAME), "run_id": ("", [], FRAME)}),
        ("plot", {"x": "seed", "y": "n_messages"}, {
            "x": (5,), "colour": ([],), "where": (7, True), "relation": (b"run",),
        }),
        ("publish", {"schema": "default"}, {"schema": (None, True, Path("a"))}),
    ],
)  # fmt: skip
def test_an_argument_of_another_type_is_named_with_what_is_allowed(
    function: Callable[..., object] | str, valid: dict[str, Any], wrong: dict[str, tuple[object, ...]]
) -> None:
    with rt.open_store("out") as result:
        asked = getattr(result, function) if isinstance(function, str) else function
        for name, values in wrong.items():
            for value in values:
                told = rf"{name} is .*, of type {type(value).__name__}; allowed: \S"
                with pytest.raises(ArgumentError, match=told):
                    asked(**valid | {name: value})
    assert sorted(path.name for path in Path().iterdir()) == ["out", "s.yaml"]


@pytest.mark.usefixtures("out")
def test_numbers_of_numpy_and_lists_are_taken() -> None:
    with rt.open_store("out") as result:
        assert result.table("run", np.int64(3)).count() == 1  # type: ignore[arg-type]
        assert result.why(np.int64(0), "C", "A", np.int32(1)).ended == "delivered"  # type: ignore[arg-type]
        assert result.report(np.array([0])) == Path("out/report.html")  # type: ignore[arg-type]
        assert "svg" in result.space_time(node="B", rounds=[0, 30]).svg  # type: ignore[arg-type]
        for ask, words in (
            (lambda: result.why(0, "3", "A", 1), "node '3' does not exist in run 0; known: "),
            (lambda: result.why(0, "C", "A", 1, 1), "give either the number of the publication \\(seq\\) or"),
            (lambda: result.lost_by_moves(7), "run 7 does not exist; the store has runs 0 to 0"),
        ):
            with pytest.raises(QueryError, match=words):
                ask()
        with pytest.raises(ArgumentError, match=r"path is 5, of type int; allowed: str, Path$"):
            result.plot("latency").save(5)  # type: ignore[arg-type]


@pytest.mark.usefixtures("out")
def test_impossible_ranges_of_rounds_are_refused() -> None:
    with rt.open_store("out") as result:
        for ask in (
            lambda: result.replay(0, 50, 20),
            lambda: result.report(first_round=-5),
            lambda: result.space_time(rounds=(20, 5)),
        ):
            with pytest.raises(QueryError, match="a last round that does not precede it"):
                ask()
