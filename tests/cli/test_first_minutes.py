"""The first minutes of someone new, at a terminal: an overlay and a workload of their own, a sweep, its results."""

from __future__ import annotations

import shlex
from pathlib import Path

import networkx as nx
import pytest
from support.terminal import command_at_terminal

LINKS = [("Lisboa", "Madrid", 8.0), ("Madrid", "Paris", 14.0), ("Paris", "Berlin", 13.0), ("Paris", "Madrid", 12.0),
         ("Oslo", "Bergen", 4.0)]  # fmt: skip
SUBSCRIPTIONS = "who,when,topic,filter\nLisboa,0,alerts,\nBerlin,1,alerts,level > 2\n"
PUBLICATIONS = "node,round,topic,level\nParis,20,alerts,1\nBerlin,22,alerts,3\nParis,24,alerts,4\n"
FILES = "--overlay net.graphml --subscriptions subs.csv --publications pubs.csv"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory, with what somebody brings."""
    overlay = nx.Graph()
    overlay.add_edges_from((src, dst, {"delay_ms": ms}) for src, dst, ms in LINKS)
    nx.write_graphml(overlay, tmp_path / "net.graphml")
    (tmp_path / "subs.csv").write_text(SUBSCRIPTIONS)
    (tmp_path / "pubs.csv").write_text(PUBLICATIONS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost() -> None:
    said = {80: "", 120: ""}
    for arguments, widths in (
        (f"init mine.yaml {FILES}", (80,)),
        ("plan mine.yaml", (80,)),
        (
            "run mine.yaml --engine local --set 'faults=[{kind: crash, node: Madrid, round: 21}]' --set runs.seeds=[1]",
            (80,),
        ),
        ("why runs/mine/latest", (80, 120)),
        ("sql runs/mine/latest 'select * from result order by run_id'", (80, 120)),
        ("runs", (80,)),
    ):
        for width in widths:
            shown, code = command_at_terminal(width, *shlex.split(arguments))
            assert code == 0, shown
            too_wide = [line for line in shown.splitlines() if len(line) > width]
            assert [line for line in too_wide if not line.lstrip().startswith("roundtable why ")] == []
            said[width] += shown
    assert "confirmation_rounds_median" in " ".join(said[120].split())
    words = " ".join(said[80].split())
    for told in (
        "2 of 6 nodes are left out, which the largest component does not reach: Oslo, Bergen",
        "15 runs = 3 of the grid x 5 seeds",
        "beyond the bound: the faults exceed the protocol's fault model,",
        "delta; protocol.delta:",
        "confirmation_rounds_median",
    ):
        assert told in words
