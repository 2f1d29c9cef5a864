"""Workload files: formats, columns, rows that cannot be used, and the real files that users bring."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import sys
import tarfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.real_data import shared_data

from pipelines.contract.run_inputs import Overlay, Workload
from pipelines.errors import InputError
from pipelines.inputs.workload.build import build_workload
from pipelines.scenario.times import TimeSpec
from pipelines.scenario.workload import WorkloadSpec

ROOT = Path(__file__).parents[2]
_DEEP = 1999 if sys.version_info < (3, 12) else 9999
"""A nesting depth beyond the recursion limit of JSON's decoder. Arrow takes 16 s for 9,999 levels, 0.3 s for 1,999."""


def line(count: int) -> Overlay:
    ends = np.arange(count - 1, dtype=np.int64)
    return Overlay(tuple(f"N{i + 1}" for i in range(count)), ends, ends + 1, np.ones(count - 1, dtype=np.int64))


def build(beside: Path | None, horizon: int = 100, nodes: int = 4, **parts: dict[str, Any]) -> Workload:
    spec = WorkloadSpec.model_validate({part: {"file": file} for part, file in parts.items()})
    return build_workload(spec, overlay=line(nodes), seed=1, time=TimeSpec(rounds=horizon), beside=beside)


def problems(beside: Path, **parts: dict[str, Any]) -> dict[tuple[str | int, ...], str]:
    with pytest.raises(InputError) as caught:
        build(beside, **parts)
    return {problem.path[3:]: problem.message for problem in caught.value.problems}


def quotes_archive(path: Path, members: dict[str, str]) -> None:
    with tarfile.open(path, "w:xz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(f"quotes/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def quote(symbol: str, close: str, date: str) -> str:
    return f"[class,'STOCK'],[symbol,'{symbol}'],[close,{close}],[volume,100],[date,'{date}']\n"


@pytest.mark.parametrize("name", ["plain.csv", "quoted.csv", "rows.jsonl"])
def test_a_row_may_be_long(tmp_path: Path, name: str) -> None:
    """Arrow reads files in blocks of 1 MiB by default, and rejects a row of more than two blocks."""
    body = "x" * (5 << 19)
    if name == "rows.jsonl":
        text = "".join(json.dumps({"node": "N1", "topic": "a", "round": 1, "body": b}) + "\n" for b in (body, "y"))
    else:
        cell = f'"{body}"' if name == "quoted.csv" else body
        text = f"node,topic,round,body\nN1,a,1,{cell}\nN1,a,1,y\n"
    (tmp_path / name).write_text(text)
    columns = {"node": "node", "topic": "topic", "round": "round"}
    contents = build(tmp_path, publications={"path": name, **columns}).publication["content"].to_pylist()
    assert [json.loads(content) for content in contents] == [{"body": body}, {"body": "y"}]


def test_subscriptions_of_a_csv_with_names_rounds_topics_and_predicates(tmp_path: Path) -> None:
    text = 'node,topic,where,at\nN2,007,"price > 10 and name = ""A, B""",3\nN1,,price<5,4.0\nN2,news,,0\n'
    (tmp_path / "s.csv").write_text(text)
    built = build(tmp_path, subscriptions={"path": "s.csv", "topic": "topic", "where": "where", "round": "at"})
    assert [tuple(row.values()) for row in built.subscription.to_pylist()] == [
        (1, 3, None, "topic = '007' and price > 10 and name = 'A, B'"),
        (0, 4, None, "price < 5"),
        (1, 0, None, "topic = 'news'"),
    ]


def test_publications_take_the_types_of_their_columns_and_leave_out_empty_cells(tmp_path: Path) -> None:
    text = "node,round,topic,price,count,up,name\nN1,1,a,12.5,3,true,x\nN2,2,,,4,FALSE,\n"
    (tmp_path / "p.csv").write_text(text)
    built = build(tmp_path, publications={"path": "p.csv", "node": "node", "round": "round", "topic": "topic"})
    assert [tuple(row.values()) for row in built.publication.to_pylist()] == [
        (0, 1, "a", '{"count":3,"name":"x","price":12.5,"up":true}', None, None),
        (1, 2, None, '{"count":4,"up":false}', None, None),
    ]
    assert [tuple(row.values()) for row in built.attribute.to_pylist()] == [
        (0, "topic", None, None, "a"),
        (0, "count", 3.0, 3, None),
        (0, "name", None, None, "x"),
        (0, "price", 12.5, None, None),
        (0, "up", None, None, "true"),
        (1, "count", 4.0, 4, None),
        (1, "up", None, None, "false"),
    ]


def test_a_row_without_any_content_keeps_its_place(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("node,round,topic,price,name\nN1,1,a,12.5,x\nN2,2,b,,\nN1,3,c,8,\n")
    built = build(tmp_path, publications={"path": "p.csv", "node": "node", "round": "round", "topic": "topic"})
    assert built.publication.select(["topic", "content"]).to_pylist() == [
        {"topic": "a", "content": '{"name":"x","price":12.5}'},
        {"topic": "b", "content": "{}"},
        {"topic": "c", "content": '{"price":8}'},
    ]


LARGE = (1709287200000000001, 1709287200000000002, -(2**63), 2**63 - 1, 2**53 + 1)


def test_whole_numbers_of_64_bits_are_exact_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id\n" + "".join(f"{value}\n" for value in LARGE))
    (tmp_path / "p.padres").write_text("".join(f"[id,{value}]\n" for value in LARGE))
    (tmp_path / "p.jsonl").write_text("".join(f'{{"id":{value}}}\n' for value in LARGE))
    for name, kind in (("p", pa.int64()), ("d", pa.decimal128(20, 0)), ("s", pa.decimal128(22, 2))):
        pq.write_table(pa.table({"id": pa.array(LARGE, pa.int64()).cast(kind)}), tmp_path / f"{name}.parquet")
    for name in ("p.csv", "p.padres", "p.jsonl", "p.parquet", "d.parquet", "s.parquet"):
        built = build(tmp_path, publications={"path": name, "nodes": ["N1"]})
        assert built.publication["content"].to_pylist() == [f'{{"id":{value}}}' for value in LARGE], name
        assert built.attribute["whole"].to_pylist() == list(LARGE), name


def test_numbers_in_strings_are_read_from_every_type_of_strings(tmp_path: Path) -> None:
    text = pa.array(["7", "8", "7"])
    for name, column in (("s", text), ("l", text.cast(pa.large_string())), ("d", text.dictionary_encode())):
        pq.write_table(pa.table({"id": column}), tmp_path / f"{name}.parquet")
        built = build(tmp_path, publications={"path": f"{name}.parquet", "nodes": ["N1"]})
        assert built.publication["content"].to_pylist() == ['{"id":7}', '{"id":8}', '{"id":7}'], name


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["1709287200000000001", "1.5"], "the whole number 1709287200000000001 beside decimals"),
        (["18446744073709551617"], "the whole number 18446744073709551617 beside decimals, or beyond 64 bits"),
    ],
)
def test_whole_numbers_that_would_be_rounded_are_refused(tmp_path: Path, values: list[str], words: str) -> None:
    (tmp_path / "p.csv").write_text("id\n" + "".join(f"{value}\n" for value in values))
    (tmp_path / "p.padres").write_text("".join(f"[id,{value}]\n" for value in values))
    (tmp_path / "p.jsonl").write_text("".join(f'{{"id":{value}}}\n\n' for value in values))
    told_padres = f"whole number {values[0]}, which is not exact"
    for name, told in (("p.csv", words), ("p.jsonl", words), ("p.padres", told_padres)):
        with pytest.raises(InputError, match="not exact") as caught:
            build(tmp_path, publications={"path": name, "nodes": ["N1"]})
        assert told in str(caught.value)


def test_a_number_beyond_64_bits_in_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([2**63], pa.uint64())}), tmp_path / "u.parquet")
    pq.write_table(pa.table({"id": pa.array([Decimal(2**63 + 1)], pa.decimal128(20, 0))}), tmp_path / "d.parquet")
    for name in ("u.parquet", "d.parquet"):
        with pytest.raises(InputError, match="leave it out of content"):
            build(tmp_path, publications={"path": name, "nodes": ["N1"]})


def test_the_same_rows_come_from_every_format_and_compression(tmp_path: Path) -> None:
    rows = {"node": ["N3", "N1", "N3"], "topic": ["a", "b", "a"], "price": [1.5, 2.0, 3.25]}
    text = "node,topic,price\n" + "".join(f"{n},{t},{p}\n" for n, t, p in zip(*rows.values(), strict=True))
    (tmp_path / "p.csv").write_text(text)
    (tmp_path / "p.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "p.txt").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "p.tsv.xz").write_bytes(lzma.compress(text.replace(",", "\t").encode()))
    pq.write_table(pa.table(rows), tmp_path / "p.parquet")
    names = ("p.csv", "p.tsv", "p.txt", "p.csv.gz", "p.tsv.xz", "p.parquet")
    built = [build(tmp_path, publications={"path": n, "node": "node", "topic": "topic"}) for n in names]
    assert built[0].publication.num_rows == 3
    for other in built[1:]:
        assert other.publication.equals(built[0].publication)
        assert other.attribute.equals(built[0].attribute)


def test_values_of_the_node_column_go_round_the_chosen_nodes_in_order_of_appearance(tmp_path: Path) -> None:
    (tmp_path / "u.tsv").write_text("user\tartist\n9\t1\n7\t1\n9\t2\n8\t1\n7\t3\n")
    file = {"path": "u.tsv", "node": "user", "topic": "artist", "nodes": ["N3", "N1"]}
    built = build(tmp_path, subscriptions=file)
    assert built.subscription["node_id"].to_pylist() == [2, 0, 2, 2, 0]


def test_lines_may_end_with_carriage_returns_and_cells_may_contain_quotes(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_bytes(b'node,topic,x\rN1,a,5" long\rN2,"b, ""c""","d\r"\r')
    made = build(tmp_path, publications={"path": "p.csv", "node": "node", "topic": "topic"})
    assert made.publication["topic"].to_pylist() == ["a", 'b, "c"']
    assert made.publication["content"].to_pylist() == ['{"x":"5\\" long"}', '{"x":"d\\n"}']


def test_spaces_around_topics_and_nodes_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "u.tsv").write_text("user\tartist\n61\t65  \n 61\t65\n")
    file = {"path": "u.tsv", "node": "user", "topic": "artist", "nodes": "all"}
    built = build(tmp_path, subscriptions=file)
    assert built.subscription["predicate"].to_pylist() == ["topic = '65'"] * 2
    assert built.subscription["node_id"].to_pylist() == [0, 0]


def test_the_last_cell_of_a_file_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "s.tsv").write_text("node\ttopic\tround\tuntil\nN1\ta\t0\t5\nN2\tb\t1\t\n\n")
    file = {"path": "s.tsv", "topic": "topic", "round": "round", "until": "until"}
    assert build(tmp_path, subscriptions=file).subscription["end_round"].to_pylist() == [5, None]


def test_a_first_line_of_numbers_is_a_row_and_its_columns_have_numbers(tmp_path: Path) -> None:
    (tmp_path / "u.tsv").write_text("9\t51\t3\n7\t52\t4\n")
    built = build(tmp_path, subscriptions={"path": "u.tsv", "node": "1", "topic": "2", "nodes": "leaves"})
    assert built.subscription["predicate"].to_pylist() == ["topic = '51'", "topic = '52'"]
    assert built.subscription["node_id"].to_pylist() == [0, 3]


def test_a_first_row_whose_cells_are_the_numbers_of_columns_is_kept(tmp_path: Path) -> None:
    (tmp_path / "u.tsv").write_text("A\t2\n\nB\t3\n")
    built = build(tmp_path, subscriptions={"path": "u.tsv", "node": "1", "topic": "2", "nodes": "leaves"})
    assert built.subscription["predicate"].to_pylist() == ["topic = '2'", "topic = '3'"]


def test_rows_share_a_round_reverse_turns_them_and_limit_cuts_what_is_published(tmp_path: Path) -> None:
    file = {"path": "p.csv", "format": "csv", "nodes": "all", "round": 5, "per_round": 3, "reverse": True, "limit": 5}
    (tmp_path / "p.csv").write_text("price,x\n" + "".join(f"{i},a\n" for i in range(1, 8)))
    built = build(tmp_path, publications=file | {"content": ["price"]})
    assert built.publication["round"].to_pylist() == [5, 5, 5, 6, 6]
    assert built.publication["content"].to_pylist() == [f'{{"price":{i}}}' for i in (7, 6, 5, 4, 3)]
    assert built.publication["node_id"].to_pylist() == [0, 1, 2, 3, 0]
    assert build(tmp_path, publications=file | {"limit": 0}).publication.num_rows == 0


def test_padres_members_are_merged_by_date_then_symbol(tmp_path: Path) -> None:
    quotes_archive(
        tmp_path / "q.tar.xz",
        {
            "B": quote("B", "2.50", "3-Jan-05") + quote("B", "2.00", "31-Dec-04").rstrip("\n"),
            "A": quote("A", "1.50", "3-Jan-05") + "\r\n" + quote("A", "1", "2-Feb-99"),
        },
    )
    file = {"path": "q.tar.xz", "node": "symbol", "topic": "class", "nodes": 2}
    oldest = build(tmp_path, publications=file | {"reverse": True})
    contents = [json.loads(text) for text in oldest.publication["content"].to_pylist()]
    assert [(c["date"], c["symbol"], c["close"]) for c in contents] == [
        ("2-Feb-99", "A", 1.0),
        ("31-Dec-04", "B", 2.0),
        ("3-Jan-05", "A", 1.5),
        ("3-Jan-05", "B", 2.5),
    ]
    assert set(oldest.publication["topic"].to_pylist()) == {"STOCK"}
    newest = build(tmp_path, publications=file)
    assert [json.loads(text)["close"] for text in newest.publication["content"].to_pylist()] == [1.5, 2.5, 2.0, 1.0]


def test_padres_quotes_of_one_file_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "AAPL").write_text(quote("AAPL", "2", "3-Jan-05") + quote("AAPL", "1", "2-Jan-05"))
    file = {"path": "AAPL", "nodes": ["N1"], "content": ["close"]}
    assert build(tmp_path, publications=file).publication["content"].to_pylist() == ['{"close":2}', '{"close":1}']
    turned = build(tmp_path, publications=file | {"reverse": True})
    assert turned.publication["content"].to_pylist() == ['{"close":1}', '{"close":2}']


def test_the_sample_of_quotes_is_read_from_the_installed_data() -> None:
    file = {"path": "datasets/workloads/quotes.padres", "node": "symbol", "nodes": "all", "reverse": True}
    built = build(None, publications=file)
    assert Counter(built.attribute["attribute"].to_pylist()) == dict.fromkeys(
        ("class", "symbol", "open", "high", "low", "close", "volume", "date"), built.publication.num_rows
    )
    assert built.publication.num_rows == 12


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    for rows in (2, 3):
        (tmp_path / "s.csv").write_text("node,topic\n" + "N1,a\n" * rows)
        assert build(tmp_path, subscriptions={"path": "s.csv", "topic": "topic"}).subscription.num_rows == rows


def test_missing_columns_are_told_with_the_nearest_name_and_the_list(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("node,topic,round\nN1,a,1\n")
    found = problems(tmp_path, subscriptions={"path": "s.csv", "node": "nod", "topic": "topics", "round": "rund"})
    assert found["node",] == "no column 'nod'; did you mean 'node'? columns: node, topic, round"
    assert "did you mean 'topic'?" in found["topic",]
    assert "did you mean 'round'?" in found["round",]


def test_rounds_that_cannot_be_used_are_told_with_their_rows(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("node,topic,round\n" + "".join(f"N1,a,{r}\n" for r in ("1", "x", "-2", "", "1.5")))
    message = problems(tmp_path, subscriptions={"path": "s.csv", "topic": "topic", "round": "round"})["round",]
    assert message == "row 2: 'x' is not a round; give a whole number from 0 (so are rows 3, 4, 5)"
    (tmp_path / "s.csv").write_text("node,topic,round\nN1,a,100\nN1,a,101\n")
    message = problems(tmp_path, subscriptions={"path": "s.csv", "topic": "topic", "round": "round"})["round",]
    assert message.startswith("row 2: round 101 is after the horizon of 100 rounds")
    (tmp_path / "p.csv").write_text("node\n" + "N1\n" * 103)
    message = problems(tmp_path, publications={"path": "p.csv", "format": "csv", "node": "node"})["round",]
    assert message.startswith("row 102: round 101 is after the horizon")


def test_nodes_that_cannot_be_used_are_told_with_their_rows(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("node,topic\nN1,a\nN2x,a\n,a\nN2x,a\n")
    with pytest.raises(InputError) as caught:
        build(tmp_path, subscriptions={"path": "s.csv", "topic": "topic"})
    messages = [problem.message for problem in caught.value.problems]
    assert any(m.startswith("row 3: the cell is empty") for m in messages)
    assert any(m.startswith("row 2: the overlay has no node 'N2x'") and "did you mean 'N2'?" in m for m in messages)
    assert any(m.endswith("; or map the values to nodes with key nodes, e.g. nodes: all") for m in messages)
    found = problems(tmp_path, subscriptions={"path": "s.csv", "topic": "topic", "nodes": 5})
    assert found["nodes",] == "5 nodes wanted, the overlay has 4; give at most 4, or all"
    assert "no node; name a column" in problems(tmp_path, publications={"path": "s.csv"})["node",]


def test_predicates_that_cannot_be_read_are_told_with_their_rows(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("node,where\nN1,price > 1\nN1,price >\nN1,\n")
    with pytest.raises(InputError) as caught:
        build(tmp_path, subscriptions={"path": "s.csv", "where": "where"})
    assert [p.message.split(":")[0] for p in caught.value.problems] == ["row 2", "row 3"]
    assert "name the column of the topic" in problems(tmp_path, subscriptions={"path": "s.csv"})["topic",]


@pytest.mark.parametrize("value", ["nan", "inf", "-Infinity"])
def test_numbers_that_are_not_finite_are_refused_with_their_rows(tmp_path: Path, value: str) -> None:
    (tmp_path / "p.csv").write_text(f"node,price\nN1,1.5\nN1,{value}\n")
    message = problems(tmp_path, publications={"path": "p.csv", "node": "node"})["content",]
    assert message.startswith("row 2: price is ")
    assert "no finite number" in message


def test_content_cannot_hold_lists_or_a_second_topic(tmp_path: Path) -> None:
    pq.write_table(pa.table({"node": ["N1"], "many": [[1, 2]], "topic": ["a"]}), tmp_path / "p.parquet")
    with pytest.raises(InputError) as caught:
        build(tmp_path, publications={"path": "p.parquet", "node": "node"})
    assert [p.path[-1] for p in caught.value.problems] == ["content", "content"]
    assert {p.message.split(" ")[1] for p in caught.value.problems} == {"'many'", "attribute"}
    assert "which is not text" in problems(tmp_path, publications={"path": "p.parquet", "node": "many"})["node",]


@pytest.mark.parametrize(
    ("name", "raw", "told"),
    [
        ("empty.csv", b"", "has no rows"),
        ("titles.csv", b"node,topic\n", "has no rows"),
        ("ragged.csv", b"node,topic\nN1,a\nN1\nN1,a,b\n", "line 3: 1 cells, line 4: 3 cells, and the first line has 2"),
        ("twice.csv", b"node,node\nN1,a\n", "two columns called 'node'"),
        ("untitled.csv", b"node,\nN1,a\n", "column 2 has no name"),
        ("latin.csv", "node,topic\nN1,é\n".encode("latin-1"), "line 2: not UTF-8 text (byte 0xe9)"),
        ("wide.csv", "node,topic\nN1,a\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
        ("quote.csv", b'node,topic\nN1,"a\nN2,b\n', "line 2: a cell begins with a quote and has no closing quote"),
        ("array.jsonl", b'[{"node": "N1"}]', "the file is a JSON array; write one object per line"),
        ("types.jsonl", b'{"a": 1}\n{"a": "b"}\n', "changed from number to string in row 2"),
        ("deeper.jsonl", b'{"b": ' + 100_000 * b"[" + b"\n", "recursion"),
        ("open.jsonl", b'{"b": ' + 300 * b"[" + b"\n", "JSON parse error"),
        ("broken.csv.gz", b"not compressed", "cannot be read as csv"),
        ("broken.csv.xz", lzma.compress(b"node,topic\nN1,a\n")[:-20], "cannot be read as csv"),
        ("broken.parquet", b"not parquet", "cannot be read as parquet"),
        ("broken.tar.xz", b"no archive", "cannot be read as padres"),
        ("unknown.dat", b"hello\n", "give format: csv, tsv, jsonl or parquet"),
        ("line.padres", b"[class,'A']\n[class,\n", "line.padres, line 2: '[class,' is not a list"),
        ("twice.padres", b"[class,'A'],[class,'B']\n", "line 1: attribute 'class' is given twice"),
        ("deep.jsonl", b'{"a": 1e300, "b": ' + _DEEP * b"[" + _DEEP * b"]" + b"}", "recursion"),
        ("grouped.padres", b"[open,1_0]\n[open,2]\n", "line 1: the value of 'open' is neither a number nor a string"),
        ("number.padres", b"[class,'A'],[open,1]\n[class,'A'],[open,x]\n", "line 2: the value of 'open' is neither"),
    ],
)
def test_files_that_cannot_be_read_are_told_at_their_path(tmp_path: Path, name: str, raw: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(raw)
    found = problems(tmp_path, publications={"path": name, "node": "node"})
    assert set(found) == {("path",)}
    assert told in found["path",]


def test_a_date_that_cannot_be_read_is_told_with_its_member(tmp_path: Path) -> None:
    quotes_archive(tmp_path / "q.tar.xz", {"A": quote("A", "1", "3-Jan-05"), "B": quote("B", "1", "3-Foo-05")})
    message = problems(tmp_path, publications={"path": "q.tar.xz", "nodes": "all"})["path",]
    assert "quotes/B, line 1: '3-Foo-05' is not a date" in message


def test_a_missing_file_is_told_with_the_places_tried(tmp_path: Path) -> None:
    assert str(tmp_path) in problems(tmp_path, subscriptions={"path": "none.csv", "topic": "topic"})["path",]


def test_an_archive_holds_quotes_only(tmp_path: Path) -> None:
    quotes_archive(tmp_path / "q.tar.xz", {"A": quote("A", "1", "3-Jan-05")})
    found = problems(tmp_path, subscriptions={"path": "q.tar.xz", "format": "csv", "topic": "topic"})
    assert "read as padres only" in found["path",]


def test_lastfm_listeners_subscribe_to_their_artists() -> None:
    path = str(shared_data("workloads", "lastfm2k", "user_artists.dat.xz"))
    file = {"path": path, "node": "userID", "topic": "artistID", "nodes": "all"}
    subscription = build(None, nodes=2000, subscriptions=file).subscription
    assert subscription.num_rows == 92_834
    assert len(set(subscription["predicate"].to_pylist())) == 17_632
    assert set(subscription["node_id"].to_pylist()) == set(range(1892))
    assert subscription["predicate"][0].as_py() == "topic = '51'"


def test_padres_stock_quotes_are_published_day_by_day() -> None:
    path = str(shared_data("workloads", "padres_stockquotes", "stockquotes_newest500.tar.xz"))
    file = {"path": path, "node": "symbol", "topic": "class", "nodes": 100, "per_round": 100, "reverse": True}
    built = build(None, nodes=120, horizon=500, publications=file)
    assert built.publication.num_rows == 49_754
    assert built.attribute.num_rows == 49_754 * 8
    assert Counter(built.publication["node_id"].to_pylist()).most_common()[-1][1] == 254
    contents = [json.loads(text) for text in built.publication["content"].to_pylist()]
    symbols = {content["symbol"] for content in contents}
    assert len(symbols) == 100
    last_day = [content["symbol"] for content in contents if content["date"] == contents[-1]["date"]]
    assert last_day == sorted(last_day)
    assert contents[-len(last_day) :] == [c for c in contents if c["date"] == contents[-1]["date"]]
