"""Plans over few rows that are worked out in this process: the rows are those that Sail makes of the same plans."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import ref

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.connect.plan import Join
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from support.engines import disturbed, mixed

from pipelines.engines.inline import inlined, later
from pipelines.engines.materialise import files
from pipelines.engines.materialise.here import done
from pipelines.engines.rows import evaluate
from pipelines.engines.rows.evaluate import evaluated, is_here
from pipelines.engines.rows.held import Held, Unread
from pipelines.engines.rows.kinds import UnknownPlanError, kinds_of, rows_of, type_of
from pipelines.engines.rows.operators import Limit, Rows, limited, most_rows
from pipelines.engines.session import Session
from pipelines.testing import run_all, run_configs

_PAIRS = pa.list_(pa.struct([("p", pa.int64()), ("q", pa.string())]))
ROWS = pa.table({
    "a": pa.array([1, -7, None, 5], pa.int64()), "b": pa.array([2, 3, 4, None], pa.int64()),
    "i": pa.array([3, -3, 0, 1], pa.int32()),
    "s": pa.array(["x", "yy", None, "zebra with a text of more than 32 bytes"]),
    "l": pa.array([[1, 2, 3], [], None, [5, 5, 7]], pa.list_(pa.int64())),
    "st": pa.array([[{"p": 1, "q": "u"}, {"p": 2, "q": None}], [], None, [{"p": 3, "q": "w"}]], _PAIRS),
    "d": pa.array([1.5, -2.5, None, 4.0]), "o": pa.array([True, False, None, True]),
})  # fmt: skip
RUNS = {
    "delta, joins and crashes": disturbed("visited"),
    "forwarding, links at fault": {
        **mixed({"name": "forwarding"}, "joined", 5),
        "faults": [
            {"kind": "loss", "rate": 0.05},
            {"kind": "delay", "rounds": [0, 4], "rate": 0.2},
            {"kind": "delay", "rounds": [1, 3], "rate": 0.2, "reorder": True},
            {"kind": "duplicate", "rate": 0.1, "after": [0, 2]},
            {"generate": {"kind": "pause", "count": 2, "down": [3, 9], "rounds": [0, 60]}},
        ],
    },
}
VALUES = """
a + b; a - i; a * 2; a / 2; a div 2; a % 3; pmod(a, 3); pmod(a - 20, 7); -a; abs(a); floor(d); d + a; a between 1 and 5
a < b; a <= i; d > a; a = b; a <> b; a = i; o and a > 0; o or a > 0; not o; not (o and a > 0); o and not o; s < 'y'
a is null; b is not null; coalesce(a, b); coalesce(a, b, 0); if(o, a, b); a in (1, 5); a not in (1, 5); s in ('x', 'yy')
case when a > 0 then 'p' when a < 0 then 'n' end; case a when 1 then 'one' when 5 then 'five' else 'x' end
array(a, b); size(l); get(l, 1); get(l, 5); slice(l, 1, 2); slice(l, 2, 5); concat(l, array(9L)); concat(l, l)
reverse(l); concat(s, '-', a); concat('a', s); startswith(s, 'y'); array_contains(l, 5L); array_position(l, 5L)
arrays_overlap(l, array(2L, 9L)); array_intersect(l, array(5L, 7L)); array_union(l, array(5L, 8L)); array_distinct(l)
array_sort(l); array_repeat(a, 2); greatest(a, b); least(a, b, i); element_at(array(a, b), -1); flatten(array(l, l))
named_struct('u', a, 'v', s); struct(a, s); array(struct(a, b)); to_json(named_struct('u', a, 'v', s, 'w', l))
to_json(named_struct('s', st)); xxhash64(a, b); xxhash64(a, i); xxhash64(s, a, 1L); xxhash64(s, 1)
shiftrightunsigned(xxhash64(a), 11); shiftrightunsigned(xxhash64(a), 11) / cast(9007199254740992 as double)
filter(l, x -> x > 1); exists(l, x -> x = 5); exists(st, f -> f.q = 'u' and f.p < b); transform(l, x -> x + a)
transform(st, f -> concat('P', f.p, '-', f.q)); array_join(transform(st, f -> concat('P', f.p)), ','); array_max(l)
array_max(transform(st, f -> case f.q when 'u' then f.p else 0L end)); sequence(1L, b); filter(st, f -> f.q is null)
filter(sequence(1L, 3L), n -> not array_contains(l, n)); cast(a as string); cast(i as bigint); cast(d as bigint)
cast(o as int); cast(null as bigint); cast(null as array<bigint>); row_number() over (partition by o order by a desc, i)
rank() over (partition by o order by b nulls last); dense_rank() over (partition by o order by b desc)
row_number() over (partition by o order by s desc nulls first); count(a) over (partition by o)
max(a) over (partition by o)
"""
AGGREGATES = """
max(a) as v; count(a) as v; count(1) as v; sum(a) as v; array_sort(collect_list(a)) as v; max(l) as v
array_sort(collect_set(b)) as v; count_if(a > 0) as v; bool_and(a > 0) as v; max(a) + min(b) as v; min_by(a, i) as v
max(case when o then a end) as v; max_by(s, b) as v; max(struct(i, s)) as v
"""


def texts(of: str) -> list[str]:
    return [text.strip() for line in of.strip().splitlines() for text in line.split(";")]


@pytest.fixture(scope="module")
def frame(sail: Session) -> DataFrame:
    return inlined(sail.spark, ROWS, from_arrow_schema(ROWS.schema))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(map(plain, value.values()))
    return tuple(map(plain, value)) if isinstance(value, list | tuple) else value


def counted(columns: list[list[Any]]) -> Counter[str]:
    return Counter(repr(plain(row)) for row in zip(*columns, strict=True))


def assert_as_on_sail(asked: DataFrame) -> None:
    held, table = evaluated(asked, may_wait=True), asked.toArrow()
    assert [*held.names] == table.column_names
    assert counted([*map(list, zip(*held.rows.rows, strict=True))]) == counted(
        [one.to_pylist() for one in table.columns]
    )
    there = [from_arrow_type(field.type).simpleString() for field in table.schema]
    assert [type_of(kind).simpleString() for kind in held.kinds] == there


@pytest.mark.parametrize("text", texts(VALUES))
def test_a_value_is_the_same(frame: DataFrame, text: str) -> None:
    assert_as_on_sail(frame.selectExpr("i", f"{text} as v"))


@pytest.mark.parametrize("text", texts(AGGREGATES))
def test_an_aggregate_is_the_same(frame: DataFrame, text: str) -> None:
    assert_as_on_sail(frame.groupBy("o").agg(F.expr(text)))
    assert_as_on_sail(frame.selectExpr(text))
    assert_as_on_sail(frame.where("i > 100").selectExpr(text))


@pytest.mark.parametrize("how", ["inner", "left", "left_semi", "left_anti"])
def test_a_join_is_the_same(frame: DataFrame, how: str) -> None:
    other = frame.selectExpr("b as a", "o", "i as j")
    for many in (other, other.unionByName(other).unionByName(other)):
        assert_as_on_sail(frame.join(many, "a" if how in ("left_semi", "left_anti") else ["a", "o"], how))
        assert_as_on_sail(many.join(frame, ["a", "o"], how))
        assert_as_on_sail(frame.join(many.where("j > 100"), ["o", "a"], how))


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("condition", ["a = c and i < j", "c = a and o = p", "a = c and (i > j or j is null)"])
def test_a_join_over_a_condition_is_the_same(frame: DataFrame, how: str, condition: str) -> None:
    other = frame.selectExpr("b as c", "o as p", "i as j")
    assert_as_on_sail(frame.join(other.unionByName(other), F.expr(condition), how))


def test_other_parts_of_plans_are_the_same(frame: DataFrame) -> None:
    for condition in ("a > 0", "not (a > 0)", "a > 0 or b > 3", "a <> b", "not (a in (1, 5))", "o", "not o", "a = b"):
        assert_as_on_sail(frame.where(condition))
    for generator in (
        "explode(l) as e", "posexplode(l) as (p, e)", "inline(st)", "explode(filter(l, x -> x > 1)) as e",
        "inline(transform(l, x -> struct(x, a)))",
    ):  # fmt: skip
        assert_as_on_sail(frame.selectExpr("i", generator))
    assert_as_on_sail(frame.unionByName(frame.select("b", "a"), allowMissingColumns=True))
    assert_as_on_sail(frame.select("a", "b").unionByName(frame.selectExpr("i as b", "a")))
    assert_as_on_sail(frame.select("a", "b").unionAll(frame.select("b", "a")))
    assert_as_on_sail(frame.select("o").unionAll(frame.select("o")).distinct())
    assert_as_on_sail(frame.drop("st", "l").withColumnRenamed("a", "z"))
    assert_as_on_sail(frame.withColumns({"a": F.expr("a + 1"), "z": F.expr("i")}))
    assert_as_on_sail(frame.selectExpr("i", "explode(st) as one").select("i", "one.*", "*"))
    assert_as_on_sail(frame.select("a", "b").toDF("x", "y").hint("shuffle_hash"))
    assert_as_on_sail(frame.select("a").crossJoin(frame.selectExpr("b as c")))


@pytest.mark.parametrize("text", ["a / 0", "element_at(l, 9)", "raise_error('no')", "s like 'x'", "rand()", "a = 1.5"])
def test_what_is_not_understood_or_fails_is_left_to_the_engine(frame: DataFrame, text: str) -> None:
    with pytest.raises(UnknownPlanError):
        evaluated(frame.selectExpr(f"{text} as v"), may_wait=True)


def test_what_is_ambiguous_or_foreign_is_left_to_the_engine(frame: DataFrame) -> None:
    given = frame.sparkSession.createDataFrame([(1, "x")], "a bigint, s string")
    asked_for = frame.select("nowhere"), frame.crossJoin(frame).select("a"), frame.dropDuplicates(["o"]), given
    for asked in asked_for:
        with pytest.raises(UnknownPlanError):
            evaluated(asked, may_wait=True)


def test_a_plan_that_is_not_understood_holds_nothing_of_who_asked(frame: DataFrame) -> None:
    """Plans are remembered; an error that is remembered would hold the relations of the round in which it came."""

    class Something:
        pass

    def ask() -> ref[Something]:
        something = Something()
        with pytest.raises(UnknownPlanError):
            evaluated(frame.sample(0.5, seed=1), may_wait=True)
        return ref(something)

    for _ in range(2):
        assert ask()() is None


def test_a_relation_has_the_columns_that_its_name_stands_for(frame: DataFrame) -> None:
    held = evaluated(frame.selectExpr("a", "named_struct('x', a, 'y', s) as pair"), may_wait=True)
    pair = ("struct", ("x", "y"), ("bigint", "string"))
    assert [len(row) for row in held.picked(["pair"], [pair]).rows] == [1] * 4
    for names, kinds in (
        (["b"], ["bigint"]), (["a"], ["string"]), (["pair"], [("struct", ("y", "x"), ("bigint", "string"))]),
    ):  # fmt: skip
        with pytest.raises(UnknownPlanError):
            held.picked(names, kinds)
    twice = evaluated(frame.select("a", "a"), may_wait=True)
    with pytest.raises(UnknownPlanError):
        twice.picked(["a"], ["bigint"])


def test_many_rows_are_left_to_the_engine(sail: Session) -> None:
    rows = pa.table({"a": range(most_rows() + 1)})
    some = inlined(sail.spark, rows[: most_rows()], from_arrow_schema(rows.schema))
    twice = evaluated(some.union(some), may_wait=True)
    assert len(twice.rows.rows) == 2 * most_rows()
    with pytest.raises(UnknownPlanError):
        evaluated(inlined(sail.spark, rows, from_arrow_schema(rows.schema)), may_wait=True)
    with pytest.raises(UnknownPlanError):
        evaluated(sail.spark.range(most_rows() + 1), may_wait=True)


def test_what_took_long_is_left_to_the_engine_and_tried_again(sail: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time for each row; few rows are worked out here however long they take."""
    clock = itertools.count()
    monkeypatch.setattr(evaluate, "thread_time", clock.__next__)  # a second each

    def is_here_at(n_rows: int) -> bool:
        rows = pa.table({"slow": range(n_rows)})
        return is_here(inlined(sail.spark, rows, from_arrow_schema(rows.schema)).where("slow >= 0"))

    with limited(Limit(80_000, 0.5)):
        assert is_here_at(20_000)  # a second, as is known then
        assert [is_here_at(20_000) for _ in range(24)] == [*[False] * 23, True]
        assert is_here_at(9_000)
        assert not is_here_at(12_000)
        assert is_here_at(5_000)
    with limited(Limit(80_000, 3)):
        assert is_here_at(20_000)


@pytest.mark.parametrize(("condition", "is_here_again"), [("n >= 0", False), ("n < 10", True)])
def test_rows_that_an_engine_wrote_and_reads_again_count_twice(
    sail: Session, monkeypatch: pytest.MonkeyPatch, condition: str, *, is_here_again: bool
) -> None:
    """Of 15,000 rows, 30 ms to read them and as much to give them back, or next to nothing."""
    monkeypatch.setattr(evaluate, "thread_time", itertools.repeat(0.0).__next__)
    rows = pa.table({"n": range(15_000)})
    schema = from_arrow_schema(rows.schema)

    @dataclass(frozen=True)
    class Written:
        frame: DataFrame
        held: Held

    def is_worked_out() -> bool:
        unread = Unread(len(rows), lambda: Rows(rows_of(rows, kinds_of(schema))))
        there = Written(inlined(sail.spark, rows, schema), Held(["n"], kinds_of(schema), unread))
        return is_here(later(sail.spark, done(there), schema).where(condition).selectExpr("n as kept"))

    with limited(Limit(80_000, 0.04)):
        assert is_worked_out()
        assert is_worked_out() is is_here_again


def test_a_plan_over_too_many_rows_is_not_made(sail: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make its message takes far longer than to see that."""
    few, many = pa.table({"a": range(10)}), pa.table({"a": range(most_rows())})
    frames = [inlined(sail.spark, rows, from_arrow_schema(rows.schema)) for rows in (few, many)]
    joined = frames[0].join(frames[1].where("a > 1"), "a").distinct()
    monkeypatch.setattr(Join, "plan", None)
    with pytest.raises(UnknownPlanError, match="many rows"):
        evaluated(joined, may_wait=True)
    with pytest.raises(TypeError):
        evaluated(frames[0].join(frames[0].where("a > 1"), "a"), may_wait=True)


def test_text_in_a_scenario_is_never_source(frame: DataFrame) -> None:
    """Literals are written as Python writes them."""
    assert_as_on_sail(frame.selectExpr("i", """'"+__import__("os").getpid()+"' as v""", "'{0} {} %s' as w"))


@pytest.mark.parametrize("name", RUNS)
def test_all_relations_of_runs_are_those_of_sail(
    name: str, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is worked out here, and the same plan is sent."""
    compared, left = 0, Counter[str]()

    def both(asked: DataFrame, *, may_wait: bool) -> Held:
        nonlocal compared
        try:
            held = evaluated(asked, may_wait=may_wait)
        except UnknownPlanError as error:
            left[str(error)] += 1
            raise
        table, compared = asked.toArrow(), compared + 1
        there = counted([table[column].to_pylist() for column in held.names])
        assert counted([*map(list, zip(*held.rows.rows, strict=True))] or [[]] * len(held.names)) == there
        return held

    monkeypatch.setattr(files, "evaluated", both)
    run_all(run_configs([RUNS[name]]), sail, tmp_path, form="dataflow")
    assert compared > 50
    assert {*left} <= {"", "read", "sql"}, "rounds leave nothing to the engine but what is read from the store"
