"""What disks do to a store is told as such, with the way on."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from support.commands import cli

import pipelines as rt
from pipelines.cli.stores import stores
from pipelines.engines.session import Session
from pipelines.errors import EngineError, ProtocolError, StoreError
from pipelines.protocols import protocol_named
from pipelines.rounds.progress import Progress
from pipelines.sql.errors import readable_errors
from pipelines.store.damage import disk_error, surroundings_error
from pipelines.store.store import Store

SCENARIO = """name: small
protocol: {name: forwarding}
overlay: {links: [[A, B], [B, C]]}
workload:
  subscriptions: [{at: C, round: 0, topic: a}]
  publications: [{at: A, round: 20, topic: a}]
time: {rounds: 100}
engine: local
"""


@pytest.fixture(scope="module")
def whole(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished store."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "s.yaml").write_text(SCENARIO)
    rt.run(folder / "s.yaml", sail.spark, folder / "store")
    return folder / "store"


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    return Path(shutil.copytree(whole, tmp_path / "store"))


@pytest.mark.parametrize("spoil", [lambda file: file.write_bytes(file.read_bytes()[:100]), Path.unlink])
def test_a_damaged_file_is_named(store: Path, spoil: object) -> None:
    [file, *_] = (store / "message").glob("*.parquet")
    assert callable(spoil)
    spoil(file)
    for arguments in (
        ("sql", store, "select max(body) from message"),
        ("audit", store),
        ("why", store, "--subscriber", "C", "--source", "A", "--seq", 1),
        ("export", store, "-o", store.parent / "run.jsonl"),
    ):
        result = cli(*arguments)
        assert result.exit_code == 64
        assert f"is damaged: its file message/{file.name} cannot be read; restore it from a backup" in result.stderr
    assert [one.name for one in store.parent.iterdir()] == ["store"]


@pytest.mark.parametrize("table", ["delivery", "run", "state_message"])
def test_a_missing_table_is_named(store: Path, table: str) -> None:
    shutil.rmtree(store / table)
    for arguments in (
        ("sql", store, "select count(*) from delivery"),
        ("audit", store),
        ("why", store, "--subscriber", "C", "--source", "A", "--seq", 1),
        ("report", store),
    ):
        result = cli(*arguments)
        assert result.exit_code == 64, arguments
        assert f"is damaged: the folder of table '{table}' is missing; put it back, or run the" in result.stderr


def emptied(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    ("table", "lose"),
    [("delivery", Path.unlink), ("delivery", emptied), ("state_message", Path.unlink), ("round_commit", emptied)],
)
def test_rows_of_a_lost_log_entry_are_missed(store: Path, table: str, lose: Callable[[Path], None]) -> None:
    """A copy of the folder during the run, or a power failure, loses the last entry of a log."""
    lose(max((store / table / "_delta_log").glob("*.json")))
    told = rf"table '{table}' .* is damaged: its log lacks version \d+, which a commit has written"
    for arguments in (("sql", store, "select count(*) from delivery"), ("audit", store), ("resume", store)):
        result = cli(*arguments)
        assert result.exit_code == 64, arguments
        assert re.search(told, result.stderr), result.stderr


def test_a_store_that_is_removed_during_its_run_is_told(tmp_path: Path, sail: Session) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)

    def remove(progress: Progress) -> None:
        if progress.round > 20:
            shutil.rmtree(tmp_path / "store", ignore_errors=True)

    with pytest.raises(StoreError, match=r"is damaged: the folder of table '\w+' is missing"):
        rt.run(tmp_path / "s.yaml", sail.spark, tmp_path / "store", commit_every=2, observe=remove)


CRASH = SCENARIO.replace("forwarding", "delta").replace(
    "time:", "faults: [{kind: crash, node: B, round: 24, until: 40}]\ntime:"
)


@pytest.fixture(scope="module")
def vacuumed(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished store without the files of old versions."""
    folder = tmp_path_factory.mktemp("vacuumed")
    (folder / "s.yaml").write_text(CRASH)
    rt.run(folder / "s.yaml", sail.spark, folder / "store", commit_every=5)
    for log in (folder / "store").glob("*/_delta_log"):
        DeltaTable(str(log.parent)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    return folder / "store"


def test_commands_name_vacuum_and_do_what_they_can(vacuumed: Path) -> None:
    found = cli("compare-node", vacuumed, "--run", 0, "--node", "B", "--format", "json")
    assert found.exit_code == 0
    assert "VACUUM removed rows of some versions" in found.stderr
    rows = {row["table_name"]: row for row in json.loads(found.stdout)}
    gone = rows["state_routing_entry"]
    assert (gone["n_before"], gone["n_same"]) == (None, None)
    assert gone["n_end"] == 1  # C's subscription, of which the newest version tells
    assert re.fullmatch(r"version \d+ of round \d+(, version \d+ of round \d+)?", gone["gone"])
    assert [row["gone"] for row in rows.values()].count(None) < len(rows)
    found = cli("report", vacuumed)
    assert found.exit_code == 0
    page = (vacuumed / "report.html").read_text("utf-8")
    assert "states of nodes at the end of rounds " in page
    assert "as VACUUM removed their files" in page
    found = cli("sql", vacuumed, "select count(*) from state_routing_entry", "--as-of-round", 20)
    assert found.exit_code == 64
    assert re.search(r"version \d+ of table 'state_routing_entry' .* is gone: VACUUM", found.stderr)
    for arguments in (
        ("sql", vacuumed, "select count(*) from state_routing_entry"),
        ("sql", vacuumed, "select count(*) from message", "--as-of-round", 20),
        ("why", vacuumed, "--run", 0, "--subscriber", "C", "--source", "A", "--seq", 1),
        ("audit", vacuumed),
        ("export", vacuumed, "--run", 0),
        ("resume", vacuumed),
    ):
        assert (cli(*arguments).exit_code, arguments) == (0, arguments)


def test_a_store_that_cannot_be_written_is_audited_all_the_same(
    store: Path, sail: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Store(store, sail).version("run")
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("pipelines.result.locked", None)
    with rt.open_store(store, sail.spark) as result:
        assert result.audit().verdict == result.verdict == "valid"
    assert Store(store, sail).version("run") == before


def test_a_limit_on_files_ends_a_run_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    command = [sys.executable, "-m", "pipelines", "run", "s.yaml", "--store", "store", "--quiet"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, preexec_fn=limited
    )
    assert ended.returncode == 64
    assert "cannot be written: a file exceeds the size limit: raise the limit (ulimit -f)" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_name_that_is_too_long_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    result = cli("run", tmp_path / "s.yaml", "--store", tmp_path / ("x" * 300))
    assert (result.exit_code, "limit of the file system: use a shorter name" in result.stderr) == (64, True)
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_a_full_disk_is_told_and_how_to_go_on(tmp_path: Path, sail: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    load, n_written = Store.load, 0

    def full(self: Store, *arguments: object) -> None:
        nonlocal n_written
        n_written += arguments[0] == "message"
        if n_written > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        load(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "load", full)
    with pytest.raises(StoreError, match="cannot be written: the disk is full: free disk space") as caught:
        rt.run(tmp_path / "s.yaml", sail.spark, tmp_path / "store", commit_every=1)
    assert caught.value.__notes__ == [f"to resume: roundtable resume {tmp_path / 'store'}"]


def test_other_errors_are_no_damage() -> None:
    assert disk_error(ValueError("a column of the Parquet file")) is None
    said = "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"
    error = RuntimeError("in a round")
    error.__cause__ = RuntimeError(said)
    assert "the disk is full" in str(disk_error(error))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "the JVM of Spark has ended"),
        (RuntimeError("An error occurred while calling o99.count"), "the JVM of Spark has ended"),
        (RuntimeError("An error occurred while calling o99.count.\n: java.lang.Exception"), None),
        (RuntimeError("_InactiveRpcError: status = StatusCode.UNAVAILABLE"), "the Spark Connect server has ended"),
        (ValueError("a wrong name"), None),
    ],
)
def test_the_loss_of_an_engine_is_told_from_its_errors(error: Exception, said: str | None) -> None:
    outer = RuntimeError("in a round")
    outer.__cause__ = error
    found = surroundings_error(outer)
    assert found is None if said is None else said in str(found)


def test_a_query_names_an_engine_that_is_lost_while_rows_are_computed() -> None:
    with pytest.raises(EngineError, match="the Spark Connect server has ended"), readable_errors():
        raise PySparkException("<_MultiThreadedRendezvous of RPC: status = StatusCode.UNAVAILABLE")


def test_a_file_without_rights_is_no_damaged_file() -> None:
    denied = "the store 'st' cannot be accessed: permission denied for '/st/run/a.parquet'; correct its rights"
    said = "Generic LocalFileSystem error: Unable to open file /st/run/a.parquet#1: Permission denied (os error 13)"
    for error in (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/st/run/a.parquet"), ValueError(said)):
        assert denied in str(disk_error(error, "st"))
    assert "a file cannot be accessed" in str(disk_error(ValueError("Permission denied (os error 13)")))


def test_a_folder_without_rights_hides_no_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = store.parent / "closed"
    (closed / "inner").mkdir(parents=True)
    is_file, iterdir = Path.is_file, Path.iterdir

    def asked(path: Path) -> bool:
        if path.is_relative_to(closed / "inner"):
            raise PermissionError
        return is_file(path)

    def listed(path: Path) -> Iterator[Path]:
        if path == closed / "inner":
            raise PermissionError
        return iterdir(path)

    monkeypatch.setattr(Path, "is_file", asked)
    monkeypatch.setattr(Path, "iterdir", listed)
    assert [one["store"] for one in stores(store.parent)] == [str(store)]


def test_a_protocol_that_is_gone_is_told() -> None:
    with pytest.raises(ProtocolError, match="no installed package brings it; install the package"):
        protocol_named("pastry")
