"""One row per run and means over seeds: the results of a sweep, against plain calculations."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import Row

import pipelines as rt
from pipelines.cli.verdict import print_summary
from pipelines.contract.forms import AskedForm
from pipelines.engines.session import Session
from pipelines.errors import StoreError
from pipelines.result import Result
from pipelines.sql.views import view_sources

SCENARIO = """name: sweep
protocol: {name: delta}
overlay: {generate: {kind: random_tree, nodes: 6}}
workload:
  subscriptions: {generate: {kind: topics, topics: 2, nodes: 3}}
  publications: {generate: {kind: topics, topics: 2, nodes: 2, rounds: [20, 40], rate: 0.2}}
faults: [{generate: {kind: crash, count: 1, rounds: [20, 35]}}]
time: {rounds: 400, round_ms: 2.5}
runs: {seeds: [0, 1, 2, 3, 4, 5], grid: {protocol.delta: [0, 1]}}
engine: local
"""
# Two-sided 95 % quantiles of Student's t distribution by degrees of freedom, as in printed tables.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 9: 2.262, 30: 2.042, 100: 1.984}

MEASURES = (
    "latency_ms_median", "latency_ms_p95", "latency_ms_max", "confirmation_ms_median", "confirmation_ms_max",
    "wanted_ratio", "n_wanted", "n_wanted_delivered",
    "messages_per_delivery", "latency_rounds_median", "latency_rounds_p95", "latency_rounds_max",
    "confirmation_rounds_median", "confirmation_rounds_max", "n_crashes", "n_messages", "n_deliveries", "n_missing",
    "n_violations", "n_violations_excused", "rounds",
)  # fmt: skip


@pytest.fixture(scope="module")
def sweep(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """Twelve runs; one broker crashes in each, which is beyond the bound where δ = 0."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "s.yaml").write_text(SCENARIO)
    sail.activate()
    with rt.run(folder / "s.yaml", sail.spark, folder / "store") as result:
        yield result


def test_a_row_per_run_with_its_parameters(sweep: Result) -> None:
    rows = sweep.table("result").orderBy("run_id").collect()
    assert [(row.run_id, row.seed, row.protocol_delta, row.protocol_name) for row in rows] == [
        (run, run % 6, run // 6, "delta") for run in range(12)
    ]
    assert [row.verdict for row in rows] == [run.verdict for run in sweep.runs]
    assert [row.within_bound for row in rows] == [False] * 6 + [True] * 6
    broken = {tuple(row) for row in sweep.sql("select run_id, count(1) from violation group by run_id").collect()}
    assert broken == {(row.run_id, row.n_violations_excused) for row in rows if row.n_violations_excused}
    assert {row.n_violations for row in rows} == {0}
    assert all(0 <= row.delivery_ratio <= 1 for row in rows)


def test_wanted_deliveries_do_not_depend_on_settings(sweep: Result) -> None:
    rows = sweep.table("result").orderBy("run_id").collect()
    assert [row.n_wanted for row in rows[:6]] == [row.n_wanted for row in rows[6:]]
    counted = "select run_id, count(delivery_round) as n from wanted_delivery group by run_id"
    delivered = {row.run_id: row.n for row in sweep.sql(counted).collect()}
    assert [row.n_wanted_delivered for row in rows] == [delivered[row.run_id] for row in rows]
    assert all(row.wanted_ratio == row.n_wanted_delivered / row.n_wanted for row in rows)


def test_durations_are_in_ms_beside_rounds(sweep: Result) -> None:
    for row in sweep.table("run_summary").collect():
        assert row.round_ms == 2.5
        assert row.latency_ms_p95 == row.latency_rounds_p95 * 2.5
        assert row.confirmation_ms_max == row.confirmation_rounds_max * 2.5
    [wrong] = sweep.sql(
        """select (select count(1) from delivery_detail where latency_ms <> latency_rounds * 2.5)
          + (select count(1) from confirmation_time where confirmation_ms <> confirmation_rounds * 2.5) as n,
          (select count(latency_ms) from delivery_detail) as n_deliveries,
          (select count(confirmation_ms) from confirmation_time) as n_confirmed"""
    ).collect()
    assert wrong.n == 0
    assert min(wrong.n_deliveries, wrong.n_confirmed) > 0


@pytest.mark.parametrize(
    "measure", ["delivery_ratio", "wanted_ratio", "n_messages", "latency_rounds_p95", "n_violations_excused"]
)
def test_means_over_seeds(sweep: Result, measure: str) -> None:
    given = sweep.sql(f"select protocol_delta, {measure} from result").collect()
    found = sweep.sql(f"select * from result_summary where measure = '{measure}' order by run_id").collect()
    assert [(row.run_id, row.protocol_delta, row.n_runs, row.n) for row in found] == [(0, 0, 6, 6), (6, 1, 6, 6)]
    for row in found:
        values = [float(one[1]) for one in given if one[0] == row.protocol_delta]
        low, high = wilson(values) if measure.endswith("_ratio") else positive(values)
        assert row.mean == pytest.approx(statistics.mean(values))
        assert (row.ci_low, row.ci_high) == (pytest.approx(low, rel=1e-3), pytest.approx(high, rel=1e-3))
        assert (row.lowest, row.highest) == (min(values), max(values))
    assert any(row.ci_high > row.ci_low for row in found)


def positive(values: Sequence[float]) -> tuple[float, float]:
    """Returns the interval whose logarithm is symmetric and, to first order, Student's."""
    mean = statistics.mean(values)
    half = STUDENT[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return (mean, mean) if not half else (mean * math.exp(-half / mean), mean * math.exp(half / mean))


def wilson(values: Sequence[float]) -> tuple[float, float]:
    """Returns the roots of ``(mean - p) ** 2 == z ** 2 * p * (1 - p) / size``, Wilson's definition."""
    mean, variance = statistics.mean(values), statistics.variance(values)
    z, size = 1.96, float(len(values))
    if variance:
        z, size = STUDENT[len(values) - 1], mean * (1 - mean) * len(values) / variance
    a, b, c = 1 + z**2 / size, -(2 * mean + z**2 / size), mean**2
    root = math.sqrt(max(b * b - 4 * a * c, 0.0))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def summary_of(session: Session, values: Sequence[float | str], measure: str = "delivery_ratio") -> Row:
    """Returns the row of a measure that has these values in the runs of one combination."""
    n = len(values)
    made = ", ".join(f"({place}, cast({value} as double))" for place, value in enumerate(values))
    others = ", ".join(f"1 as {name}" for name in ("delivery_ratio", *MEASURES) if name != measure)
    text = f"""with parameter as (select id as run_id from range({n})),
        run as (select id as run_id, 'same' as parameters from range({n})),
        run_summary as (select 'same' as parameters, v.value as {measure}, {others}
          from values {made} as v(id, value))
        select * from ({view_sources()["result_summary"]}) where measure = '{measure}'"""
    (row,) = session.spark.sql(text).collect()
    return row


@pytest.mark.parametrize("freedom", STUDENT)
def test_the_quantiles_are_those_of_student(sail: Session, freedom: int) -> None:
    values = [2.0 * (place % 2) for place in range(freedom + 1)]
    row = summary_of(sail, values, "n_messages")
    half = row.mean * math.log(row.ci_high / row.mean)
    assert half / statistics.stdev(values) * len(values) ** 0.5 == pytest.approx(STUDENT[freedom], abs=1e-3)


@pytest.mark.parametrize("values", [[1, 1, 0.98], [1, 1, 1], [0, 0, 0], [0, 1], [0.01, 0, 0, 0], [1, 0.5, 0.25, 0.75]])
def test_the_interval_of_a_ratio_stays_within_0_and_1(sail: Session, values: list[float]) -> None:
    row = summary_of(sail, values)
    assert 0 <= row.ci_low <= row.mean <= row.ci_high <= 1
    assert row.ci_low < row.ci_high
    if len(values) - 1 in STUDENT:
        assert (row.ci_low, row.ci_high) == pytest.approx(wilson(values), abs=1e-3)


@pytest.mark.parametrize("values", [[1, 1, 1, 1, 50], [0, 0, 3], [0, 1], [4, 4, 4]])
def test_the_interval_of_a_duration_is_not_negative(sail: Session, values: list[float]) -> None:
    row = summary_of(sail, values, "latency_rounds_p95")
    assert 0 <= row.ci_low <= row.mean <= row.ci_high
    assert (row.ci_low, row.ci_high) == pytest.approx(positive(values), rel=1e-3)


def test_one_value_has_no_interval(sail: Session) -> None:
    row = summary_of(sail, [0.5])
    assert (row.n, row.mean, row.ci_low, row.ci_high, row.standard_deviation) == (1, 0.5, None, None, None)


def test_a_measure_without_a_value_has_no_mean(sail: Session) -> None:
    row = summary_of(sail, ["null"])
    assert (row.n_runs, row.n, row.mean, row.ci_low) == (1, 0, None, None)


def test_a_sweep_ends_with_a_table_over_its_seeds(sweep: Result, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(sweep)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["protocol.delta", "runs", "valid"]
    mean = sweep.sql(
        "select mean, ci_low, ci_high from result_summary where measure = 'delivery_ratio' and run_id = 0"
    ).collect()[0]
    assert lines[2].split()[:6] == ["0", "6", "6", f"{mean[0]:.3g}", f"[{mean[1]:.3g},", f"{mean[2]:.3g}]"]
    assert lines[3].split()[:3] == ["1", "6", "6"]
    means = sweep.sql("select run_id, mean from result_summary where measure = 'latency_rounds_p95'").collect()
    assert all(f"({float(f'{2.5 * row.mean:.3g}'):g} ms)" in lines[2 + (row.run_id > 0)] for row in means)


def test_named_columns_are_known_and_described(sweep: Result) -> None:
    names = [row.col_name for row in sweep.sql("describe parameter").collect()]
    assert names[0] == "run_id"
    assert "protocol_delta" in names
    kinds = {row.name: row.kind for row in sweep.sql("show tables").collect()}
    assert kinds["result"] == kinds["result_summary"] == kinds["parameter"] == "view"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [("absent", "the schema 'absent' does not exist; create it"), ("a b", "the schema 'a b' cannot be looked up")],
)
def test_tables_are_published_into_a_schema_that_exists(sweep: Result, schema: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        sweep.publish(schema)


def test_an_engine_without_schemas_publishes_nothing(sweep: Result) -> None:
    reason = "the engine local keeps no schema; open the store with engine spark to write 'default'"
    with rt.open_store(sweep.store, engine="local") as result, pytest.raises(StoreError, match=reason):
        result.publish("default")


@pytest.mark.parametrize("form", ["program", "dataflow"])
def test_a_message_to_a_node_that_stays_down_is_lost_after_the_horizon(
    sail: Session, tmp_path: Path, form: AskedForm
) -> None:
    given = {
        "name": "horizon",
        "protocol": {"name": "forwarding"},
        "overlay": {"links": [["A", "B", 5]]},
        "workload": {
            "subscriptions": [{"at": "B", "round": 0, "topic": "t"}, {"at": "A", "round": 0, "topic": "t"}],
            "publications": [{"at": "A", "round": 17, "topic": "t"}],
        },
        "faults": [{"kind": "crash", "node": "B", "round": 19}],
        "time": {"rounds": 20},
    }
    sail.activate()
    with rt.run(given, sail.spark, tmp_path / "store", form=form) as result:
        row = result.sql("select due_round, fate from message where kind = 'PUB' and src <> dst").collect()
        assert [(*row[0], result.runs[0].rounds)] == [(22, "lost_crash", 22)]
