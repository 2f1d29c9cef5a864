"""Stores by address: the same rows, one writer, the last complete round; credentials stay in the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from support.commands import SMALL, cli, stop
from support.jvm import JVM
from support.kills import program
from support.s3 import SECRET

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import StoreError
from pipelines.rounds.progress import Progress
from pipelines.store import folder
from pipelines.store.folder import LOCK, LockFile, is_being_written, locked
from pipelines.store.place import RemotePath
from pipelines.store.roots import Root, engine_path, root_of
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT
from pipelines.testing import rows

SCENARIO = f"{SMALL}engine: local\n"
PLACES = ["bucket", pytest.param("hdfs", marks=pytest.mark.spark)]
"""Where stores are by address: fixtures, the second of which needs a JVM."""


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a bucket, or of a folder in HDFS; or a folder of this machine."""
    if request.param == "folder":
        return str(tmp_path_factory.mktemp("folder"))
    address: str = request.getfixturevalue(request.param)
    return address


@pytest.fixture(scope="module")
def finished(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario and the store of a finished run."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "s.yaml").write_text(SCENARIO)
    rt.run(folder / "s.yaml", sail.spark, folder / "finished", commit_every=2)
    return folder


@pytest.fixture(scope="module")
def made(sail: Session, place: str, finished: Path) -> Path:
    """The folder of the finished run; the place has the store of an interrupted run."""
    with pytest.raises(KeyboardInterrupt) as caught:
        rt.run(finished / "s.yaml", sail.spark, f"{place}/one", commit_every=2, observe=stop)
    assert caught.value.__notes__ == [f"to resume: roundtable resume {place}/one"]
    return finished


def lock_of(root: Root) -> LockFile:
    """Returns the lease that is a store's lock."""
    assert isinstance(root, RemotePath)
    return root.lock(LOCK)


def compare(root: Root, made: Path, sail: Session) -> None:
    """Checks that a store has the rows of the finished one; table `run` names the engine, too."""
    here, there = (Store(root, sail) for root in (root, made / "finished"))
    for name in ("message", "delivery", "publication", "subscription", "state_routing_entry"):
        assert rows(here, name) == rows(there, name), name
    assert rows(here, "run", "verdict", "rounds") == rows(there, "run", "verdict", "rounds")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are over soon."""
    monkeypatch.setattr(folder, "LEASE_SECONDS", 2.5)


def test_a_store_is_resumed_and_asked(made: Path, sail: Session, place: str) -> None:
    one = root_of(f"{place}/one")
    assert not is_being_written(one)
    assert "is not empty: it contains a store" in cli("run", made / "s.yaml", "--store", one).stderr
    resumed = cli("resume", one)
    assert (resumed.exit_code, resumed.stdout.splitlines()[-1]) == (
        0, f"valid: 1 run, all guarantees hold; history in {place}/one"
    )  # fmt: skip
    assert "resuming after round 3" in resumed.stderr
    compare(one, made, sail)
    assert cli("audit", one).exit_code == 0
    assert cli("sql", one, "select count(1) as n from delivery", "--json").stdout == '[\n{"n": 2}\n]\n'
    assert "over 2 hops" in cli("why", one, "--subscriber", "C", "--source", "A", "--seq", "1").stdout
    assert cli("report", one).stdout.startswith(f"report: {place}/one/report.html (")
    listed = cli("runs", place, "--json")
    assert listed.exit_code == 0, listed.stderr
    [row] = [row for row in json.loads(listed.stdout) if row["store"] == f"{place}/one"]  # other tests have others
    assert [row[name] for name in ("scenario", "state", "runs")] == ["s", "valid", 1]
    assert isinstance(one, RemotePath)
    written = [(one / name).read_text("latin-1") for name in one.sizes()]
    assert len(written) > 50
    assert not [text for text in written if SECRET in text]


def test_a_run_that_was_killed_is_resumed(made: Path, sail: Session, place: str, short: None) -> None:
    """What it was writing stays half written, and nobody gives its lease back."""
    root = root_of(f"{place}/killed")
    command = program("run", made / "s.yaml", "--store", str(root), "--commit-every", "1")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while Store(root, sail).version(ROUND_COMMIT.name) < 2:
            assert child.poll() is None
            time.sleep(0.05)  # each look sends requests to the server, which uses a core
        child.kill()
    assert rt.resume(root, sail.spark).verdict == "valid"
    compare(root, made, sail)


def test_what_fails_leaves_nothing(made: Path, sail: Session, place: str) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        rt.run(made / "s.yaml", sail.spark, f"{place}/failed", observe=fail)
    assert not root_of(f"{place}/failed").exists()


def test_one_program_writes(made: Path, sail: Session, place: str, short: None) -> None:
    root = root_of(f"{place}/locked")
    with locked(root):
        time.sleep(3)  # longer than a lease that is not renewed
        assert is_being_written(root)
        with pytest.raises(StoreError, match=rf"process \d+ on .* is writing the store '{place}/locked'"):
            rt.run(made / "s.yaml", sail.spark, f"{place}/locked")
    assert not root.exists()


def test_a_lease_that_its_program_left_behind_is_taken(place: str, short: None) -> None:
    root = root_of(f"{place}/left")
    assert lock_of(root).create("process 1 on gone, since long ago\ntoken 1\n")
    said: list[str] = []
    with locked(root, said.append) as check:
        check()
    assert said == ["process 1 on gone, since long ago may be writing the store: waiting for up to 2.5 s to find out"]
    assert not root.exists()


def test_who_slept_through_its_lease_commits_nothing(made: Path, sail: Session, place: str) -> None:
    """The other program is played by a change of the file; the renewal would find it later than the commit."""
    root, known = root_of(f"{place}/slept"), list[int]()

    def steal(progress: Progress) -> None:
        if progress.round == 3:
            known.append(Store(root, sail).version(ROUND_COMMIT.name))
            lock, stolen = lock_of(root), None
            while stolen is None:  # it may be renewed just now
                found = lock.head()
                assert found is not None
                stolen = lock.update("process 2 on other, since now\ntoken 2\n", found[0])

    with pytest.raises(StoreError, match=f"another program has acquired the lease of the store '{place}/slept'"):
        rt.run(made / "s.yaml", sail.spark, f"{place}/slept", commit_every=2, observe=steal)
    assert "process 2" in lock_of(root).read_text()  # the lease of the other stays
    assert [Store(root, sail).version(ROUND_COMMIT.name)] == known


@pytest.mark.parametrize("place", [*PLACES, "folder"], indirect=True)
def test_two_programs_cannot_both_add_to_the_ledger(sail: Session, place: str) -> None:
    first, second = (Store(root_of(f"{place}/ledger"), sail) for _ in range(2))
    first.create([ROUND_COMMIT])
    row = pa.table({
        name: ["{}"] if name == "versions" else [name == "is_final"] if name == "is_final" else [0]
        for name in ROUND_COMMIT.columns
    })  # fmt: skip
    assert (first.version(ROUND_COMMIT.name), second.version(ROUND_COMMIT.name)) == (0, 0)
    first.commit(row)
    with pytest.raises(StoreError, match="another program wrote table 'round_commit'"):
        second.commit(row)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("s3a://nobody/x", "the bucket does not exist: check its name and region"),
        ("s3a:///x", "names no bucket; write e.g. s3a://bucket/folder"),
        ("s4a://studies/x", "no store can be at s4a://; did you mean 's3a'?"),
        (
            "s3a://key:hidden@studies/x",
            "contains credentials, which the store would contain; put them into the environment",
        ),
        ("s3a://studies/x", "store 's3a://studies/x' does not exist"),
        ("hdfs:///x", "names no NameNode; write e.g. hdfs://host:port/folder"),
        (
            "hdfs://me:hidden@studies/x",
            "contains credentials, which the store would contain; put them into the environment",
        ),
        ("hdfs://studies/x", "'studies' is not a name service in HADOOP_CONF_DIR: write host and port of the"),
        ("hdfs://studies:8020/a%20b", "name a folder in HDFS with letters of English, digits and the characters . _ -"),
        ("hdf://studies/x", "no store can be at hdf://; did you mean 'hdfs'?"),
    ],
)
def test_addresses_that_are_wrong(tmp_path: Path, bucket: str, address: str, told: str) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    for command in (["sql", address, "select 1"], ["run", str(tmp_path / "s.yaml"), "--store", address]):
        if command[0] == "run" and address == f"{bucket}/x":
            continue
        result = cli(*command)
        assert (result.exit_code, told in result.stderr) == (64, True), result.stderr
        assert "hidden" not in result.stderr
        assert len(result.stderr.splitlines()) <= 2


def test_no_credentials(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9/169.254.169.254")
    result = cli("sql", f"{bucket}/one", "select 1")
    assert result.exit_code == 64
    assert "the environment contains no credentials: set AWS_ACCESS_KEY_ID" in result.stderr


def test_folders_by_address(tmp_path: Path) -> None:
    assert root_of(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert root_of(f"file:{tmp_path}") == tmp_path
    volume, files = root_of("dbfs:/Volumes/main/studies/v"), root_of("dbfs:/studies/one")
    assert (volume, engine_path(volume)) == (Path("/Volumes/main/studies/v"), "/Volumes/main/studies/v")
    assert (files, engine_path(files)) == (Path("/dbfs/studies/one"), "dbfs:/studies/one")


ON_SPARK = """
import sys
from pipelines.cli import main
from pipelines.engines import classic

classic._new_partial = lambda _: None  # no other JVM has these jars, and would read the class archive

scenario, *stores = sys.argv[1:]
for store in stores:
    sys.argv[1:] = ["run", scenario, "--engine", "spark", "--store", store, "--commit-every", "4"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, store
"""


@pytest.mark.spark
@pytest.mark.slow
def test_spark_writes_the_same_rows(finished: Path, sail: Session, bucket: str, hdfs: str) -> None:
    """One process writes all stores: the class path of a running JVM cannot change, and the bucket needs more jars."""
    stores = [f"{address}/spark" for address in (bucket, hdfs)]
    command = [sys.executable, "-c", ON_SPARK, str(finished / "s.yaml"), *stores]
    told = subprocess.run(command, env={**os.environ, **JVM}, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    verdicts = [line for line in told.stdout.splitlines() if line.startswith("valid: ")]
    assert verdicts == [f"valid: 1 run, all guarantees hold; history in {store}" for store in stores]
    for store in stores:
        compare(root_of(store), finished, sail)
