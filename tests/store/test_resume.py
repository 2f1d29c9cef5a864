"""A run that is killed and resumed ends with the rows of one that is not."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.kills import SCENARIO, contents, killed, n_commits, program

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import StoreError
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT
from pipelines.testing import run_configs

LINE: dict[str, Any] = {"links": [["A", "B"], ["B", "C", 2]]}
FORWARDING: dict[str, Any] = {
    "name": "test",
    "protocol": {"name": "forwarding"},
    "overlay": LINE,
    "workload": {
        "subscriptions": [{"at": "C", "round": 0, "topic": "a", "until": 8}],
        "publications": [{"at": "A", "round": place, "topic": "a", "content": {"x": 1}} for place in (3, 7)],
    },
    "faults": [{"kind": "crash", "node": "B", "round": 5, "until": 6}],
    "time": {"rounds": 30},
}
DELTA: dict[str, Any] = {
    **FORWARDING,
    "protocol": {"name": "delta", "delta": 1},
    "workload": {
        "subscriptions": [{"at": "C", "round": 0, "topic": "a"}],
        "publications": [{"at": "A", "round": 5, "topic": "a"}],
    },
    "faults": [],
}


LOSSY: dict[str, Any] = {
    **FORWARDING,
    "workload": {
        "subscriptions": [{"at": "C", "round": 0, "topic": "a"}],
        "publications": [{"at": "A", "round": place, "topic": "a"} for place in range(5, 12)],
    },
    "faults": [
        {"kind": "loss", "rate": 0.5, "kinds": ["PUB"], "burst": {"good": 5.0, "bad": 2.0}},
        {"kind": "duplicate", "rate": 0.5, "after": [0, 2]},
        {"kind": "delay", "rounds": [0, 3], "rate": 0.5},
        {"kind": "delay", "rounds": [1, 2], "rate": 0.3, "reorder": True},
        {"kind": "pause", "node": "B", "round": 7, "until": 10},
    ],
}
GINGER: dict[str, Any] = {
    **FORWARDING,
    "protocol": {"name": "ginger"},
    "overlay": {"links": [["A", "B"]], "clients": [{"name": "a", "at": "A"}, {"name": "b", "at": "B"}]},
    "workload": {
        "subscriptions": [{"at": name, "topic": "t"} for name in "ab"],
        "publications": [
            {"at": "a", "round": round_, "topic": "t", "guarantee": "total", "keys": ["k"]} for round_ in (9, 10)
        ],
    },
    "faults": [],
}
PARTS = {
    "forwarding": (FORWARDING, 2),
    "delta": (DELTA, 2),
    "batches": (FORWARDING, 1),
    "lossy": (LOSSY, 2),
    "ginger": (GINGER, 2),
}
"""By name: a scenario, and how many of its two runs are in one batch."""


BATCH_END = 3
"""The place of the ledger's row that ends the first batch, of 8."""


@dataclass(frozen=True)
class Stopped:
    """An undisturbed run, and the stores that kills would leave.

    Attributes:
        folder: Holds store ``whole``, and one named by its number for each write, as it was before that.
        written: The table of each write.
        rows: The rows of the undisturbed run.
    """

    folder: Path
    written: list[str]
    rows: dict[str, list[str]]


class Killed(BaseException):
    """The program is gone."""


@contextmanager
def before_each_write(then: Callable[[str], None], *, is_ordered: bool = True) -> Iterator[None]:
    """Calls a function with the name of the table before anything is written; if ordered, one write at a time."""

    def one_by_one(_: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1)

    def watched(method: str) -> Callable[..., None]:
        original = getattr(Store, method)

        def write(store: Store, what: Any, *arguments: Any) -> None:
            then(what if isinstance(what, str) else what.name)
            original(store, what, *arguments)

        return write

    with pytest.MonkeyPatch.context() as patch:
        if is_ordered:
            patch.setattr("pipelines.engines.session.ThreadPoolExecutor", one_by_one)
        for method in ("_create", "_write"):
            patch.setattr(Store, method, watched(method))
        yield


def go(session: Session, name: str, root: Path) -> None:
    """Runs a scenario from where its store stops."""
    session.activate()
    parts, batch_runs = PARTS[name]
    runs = run_configs([parts] * 2)
    execute(Experiment(runs, build_inputs(runs, None), 2, batch_runs), session, Store(root, session), lambda _: None)


@pytest.fixture(scope="module")
def stopped(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Stopped]:
    """Returns the undisturbed run of a protocol, made once, with the stores that kills would leave."""
    return cache(lambda name: stopped_at_each_write(sail, name, tmp_path_factory.mktemp(name)))


def stopped_at_each_write(session: Session, name: str, folder: Path) -> Stopped:
    """Runs a scenario; beside its store ``whole`` there is one for each write, as a kill before that would leave it."""
    root = folder / "whole"
    root.mkdir()
    written: list[str] = []

    def keep(table: str) -> None:
        shutil.copytree(root, folder / str(len(written)), copy_function=os.link)  # no file of a store is written twice
        written.append(table)

    with before_each_write(keep):
        go(session, name, root)
    return Stopped(folder, written, contents(session, root))


def ledger_rows(written: list[str]) -> list[int]:
    """Returns the places of the writes that complete rounds; the first one of the table makes it."""
    return [place for place, table in enumerate(written) if table == ROUND_COMMIT.name][1:]


@pytest.mark.parametrize(
    ("protocol", "row", "offset"),
    [
        ("forwarding", 0, -20),  # tables are made
        ("forwarding", 0, -7),  # nodes, links and runs are written
        ("forwarding", 0, -1),  # the first commit lacks a table
        ("forwarding", 0, 0),  # and only the ledger
        ("forwarding", 0, 1),  # it is complete
        ("forwarding", 1, -3),  # between the tables of a later commit
        ("delta", 1, 0),
        ("delta", 1, 1),
        ("delta", 2, -2),
        ("forwarding", -1, -3),  # and of the last one
        ("delta", -1, 0),
        ("lossy", 1, 0),  # what links do follows from the scenario
        ("lossy", 2, -2),
        ("ginger", -2, -1),  # key items are locked, and tables follow from others
        ("batches", BATCH_END, -2),  # within the first batch
        ("batches", BATCH_END, 0),
        ("batches", BATCH_END, 1),  # between two batches
        ("batches", BATCH_END, 3),  # nodes and links of the second batch are written
        ("batches", BATCH_END + 1, 0),  # its first commit lacks the ledger
        ("batches", BATCH_END + 1, 1),
        ("batches", -1, 0),
    ],
)
def test_a_kill_at_any_write_changes_no_row(
    sail: Session, stopped: Callable[[str], Stopped], protocol: str, row: int, offset: int
) -> None:
    found = stopped(protocol)
    ledger = ledger_rows(found.written)
    assert len(ledger) >= 4
    assert found.rows["delivery"]
    root = found.folder / str(ledger[row] + offset)
    assert Store(root, sail).is_committed() == (ledger[row] + offset > ledger[0])
    go(sail, protocol, root)
    assert contents(sail, root) == found.rows


def test_a_kill_while_rows_are_taken_back_changes_no_row(sail: Session, stopped: Callable[[str], Stopped]) -> None:
    found = stopped("forwarding")
    root = found.folder / str(ledger_rows(found.written)[2])
    n_left = 3

    def kill(table: str) -> None:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise Killed

    with before_each_write(kill), pytest.raises(Killed):
        go(sail, "forwarding", root)
    assert {*Store(root, sail).tables()} - {ROUND_COMMIT.name}
    go(sail, "forwarding", root)
    assert contents(sail, root) == found.rows


@pytest.mark.slow
def test_classic_spark_goes_on_too(
    spark: Session, sail: Session, stopped: Callable[[str], Stopped], tmp_path: Path
) -> None:
    wanted = stopped("forwarding").rows
    written: list[str] = []

    def kill(table: str) -> None:
        written.append(table)
        if written.count(ROUND_COMMIT.name) > 2:
            raise Killed

    with before_each_write(kill, is_ordered=False), pytest.raises(Killed):
        go(spark, "forwarding", tmp_path)
    assert Store(tmp_path, spark).version(ROUND_COMMIT.name) == 1
    go(spark, "forwarding", tmp_path)
    found = contents(sail, tmp_path)
    assert {name for name in wanted if found.pop(name) != wanted[name]} == {"run"}
    assert not found


def test_a_write_of_another_program_is_noticed(
    sail: Session, stopped: Callable[[str], Stopped], tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(stopped("forwarding").folder / "whole", root)
    store, other = Store(root, sail), Store(root, sail)
    rows = store.read("delivery").toArrow()
    store.load("delivery", rows)
    other.load("delivery", rows)
    with pytest.raises(StoreError, match=r"another program wrote table 'delivery'.*roundtable resume"):
        store.load("delivery", rows)


def test_kills_of_the_program_change_no_row(sail: Session, tmp_path: Path) -> None:
    """Each child is killed a moment after a hashed number of commits: the first ones make the tables."""
    (tmp_path / "s.yaml").write_text(SCENARIO + "engine: local\n")
    with rt.run(tmp_path / "s.yaml", sail.spark, tmp_path / "whole", commit_every=8) as result:
        assert result.verdict == "valid"
    n_whole = n_commits(tmp_path / "whole")
    root, draw = tmp_path / "store", random.Random(1)
    command = program("run", tmp_path / "s.yaml", "--store", root, "--commit-every", "8", "--quiet")
    for share in (0.1, 0.45, 0.8):
        assert killed(command, root, int(share * n_whole), draw)
        command = program("resume", root, "--quiet")
    with rt.resume(root, sail.spark) as result:
        assert result.verdict == "valid"
    assert contents(sail, root) == contents(sail, tmp_path / "whole")
