"""Expressions that are parsed before they are sent: the same columns as from text, and no memory lost on the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engines import sail_expressions as expressions
from pipelines.engines.session import Session

ROWS = """select * from values
    (1L, 2L, 'PUB', true, array(1L, 2L), struct(1L as a)), (2L, null, 'CONF', false, array(3L), struct(2L as a)),
    (null, 5L, null, null, null, null), (-3L, -3L, 'a b', true, array(), struct(null as a))
    as t(a, b, kind, is_on, path, pair)"""
PARSED = [
    "a", "*", "a as x", "A as X", "a + 1 as x", "a - b - 1 as x", "a - (b - 1) as x", "-1 as x",
    "a -1 as x",
    "a + b * 2 as x", "(a + b) * 2 as x", "a % 2 as x", "a / 2 as x", "3000000000 as x", "2147483647 as x",
    "9223372036854775807 as x", "'it' as x", "'' as x", "null as x", "true as x", "a = b as x", "a <> b as x",
    "a != b as x", "a <= b as x", "a >= 2 as x", "a < b or a > 1 and is_on as x", "(a < b or a > 1) and is_on as x",
    "not a = b as x", "not is_on and a = 1 as x", "a is null as x", "a is not null as x", "kind in ('PUB', 'J') as x",
    "a not in (1, 2) as x", "a between 1 and 2 as x", "a not between 1 and b as x", "a between 1 and 2 and is_on as x",
    "case when a > 1 then 'x' when b > 1 then 'y' end as x", "case kind when 'PUB' then 1 else 0 end as x",
    "case when a is null then cast(null as bigint) else a end as x", "cast(a as int) as x", "cast(a as string) as x",
    "cast('7' as bigint) as x", "if(is_on, a, b) as x", "coalesce(a, b, 0) as x", "greatest(a, b) as x",
    "concat(path, array(a)) as x", "array_contains(path, 2) as x", "get(path, 1) as x", "struct(a, b) as x",
    "named_struct('a', a, 'k', kind) as x", "to_json(named_struct('a', a)) as x", "explode(path) as x",
    "count(1) as x", "count_if(a > 1) as x", "max(case when is_on then a end) as x", "bool_and(is_on) as x",
    "-a as x", "-(a + b) as x", "cast(path as array<int>) as x", "pair.a as x", "inline(array(pair))",
    "cast(null as array<struct<path: array<bigint>, is_done: boolean>>) as x", "posexplode(path) as (position, x)",
    "struct(a, b as c, false as d) as x", "row_number() over (partition by kind, is_on order by b desc, a) as x",
    "a + cast(row_number() over (partition by is_on order by a) as bigint) as x",
    "count(1) over (partition by a + 1) as x", "sum(a) as x", "min(a)", "count(1)",
    "array_sort(collect_list(struct(a, b))) as x", "a = 1", "COALESCE(a, 1)", "2L as x", "a as end", "a as `y`",
    "transform(path, y -> y + 1) as x", "filter(path, y -> y > 1 and a = 1) as x", "exists(path, y -> y = 2) as x",
    "transform(array(pair), p -> p.a) as x", "b div 2 as x",
    "row_number() over (partition by is_on order by b desc nulls last, a nulls first) as x",
    "row_number() over (order by a, b) as x", "transform(path, (y, i) -> y + i) as x", "`a` as x", "a b", "a -- no",
    "array(struct(a as b)) as x",
    "count(1) over () as x", "a = b = is_on as x", "cast(`a` as int) as `x`", "inline_outer(array(pair))",
]  # fmt: skip
TEXT = [
    "try_cast(a as int) as x", "sum(a) over w as x", "a; b", "* except (a)", "struct(*) as x", "a in (select 1) as x",
    "1.5 as x", "1e3 as x", "'it\\'s' as x", "a as b c",
    "sum(a) over (partition by b rows between 1 preceding and current row)",
    "count(distinct a) as x", "cast(a as map<int, int>) as x",
    "date '2020-01-01' as x", "a like 'b' as x", "path[0] as x", "count(*) as x",
    "a ||  b as x",
    "a not b", "case end", "(a, b) as x", "9223372036854775808 as x", "",
]  # fmt: skip


@pytest.mark.parametrize("text", PARSED)
def test_what_is_parsed_means_what_the_text_means(sail: Session, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert expressions.parsed(text) is not None
    rows = sail.spark.sql(ROWS)
    ours = rows.selectExpr(text).toArrow()
    monkeypatch.setattr(expressions, "parsed", lambda _: None)
    theirs = rows.selectExpr(text).toArrow()
    assert ours.schema == theirs.schema
    assert sorted(ours.to_pylist(), key=repr) == sorted(theirs.to_pylist(), key=repr)


@pytest.mark.parametrize("text", TEXT)
def test_what_is_not_understood_stays_text(text: str) -> None:
    assert expressions.parsed(text) is None


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_many_texts_do_not_fill_the_memory(sail: Session) -> None:
    """As text, these 8,000 would leave some 300 MB behind."""
    texts = [f"id + {number} as x{number}" for number in range(40)]

    def ask() -> None:
        for _ in range(100):
            assert len(sail.spark.range(1).selectExpr(*texts).schema) == 40

    ask()
    before = resident_megabytes()
    ask()
    assert resident_megabytes() - before < 60
