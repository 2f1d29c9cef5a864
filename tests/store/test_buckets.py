"""Stores in a bucket: the same rows, one writer, the last complete round; credentials stay in the environment."""

from __future__ import annotations

import json
import os
import subprocess
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
from pipelines.store import lease
from pipelines.store.bucket import Bucket
from pipelines.store.folder import LOCK, is_being_written, locked
from pipelines.store.roots import engine_path, root_of
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT
from pipelines.testing import rows

SCENARIO = f"{SMALL}engine: sail\n"


@pytest.fixture(scope="module")
def made(sail: Session, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario and the store of a finished run; the bucket has that of one that was interrupted."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "s.yaml").write_text(SCENARIO)
    rt.run(folder / "s.yaml", sail.spark, folder / "finished", commit_every=2)
    with pytest.raises(KeyboardInterrupt) as caught:
        rt.run(folder / "s.yaml", sail.spark, f"{bucket}/one", commit_every=2, observe=stop)
    assert caught.value.__notes__ == [f"to resume: roundtable resume {bucket}/one"]
    return folder


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are over soon."""
    monkeypatch.setattr(lease, "LEASE_SECONDS", 2.5)


def test_a_store_in_a_bucket_is_resumed_and_asked(made: Path, sail: Session, bucket: str) -> None:
    one = root_of(f"{bucket}/one")
    assert not is_being_written(one)
    assert "is not empty: a store is there already" in cli("run", made / "s.yaml", "--store", one).stderr
    resumed = cli("resume", one)
    assert (resumed.exit_code, resumed.stdout.splitlines()[-1]) == (
        0, f"valid: 1 run, all guarantees hold; history in {bucket}/one"
    )  # fmt: skip
    assert "resuming after round 2" in resumed.stderr
    here, there = (Store(root, sail) for root in (one, made / "finished"))
    for name in ("message", "delivery", "publication", "subscription", "run", "state_routing_entry"):
        assert rows(here, name) == rows(there, name)
    assert cli("audit", one).exit_code == 0
    assert cli("sql", one, "select count(1) as n from delivery", "--json").stdout == '[\n{"n": 2}\n]\n'
    assert "over 2 hops" in cli("why", one, "--subscriber", "C", "--source", "A", "--seq", "1").stdout
    assert cli("report", one).stdout.startswith(f"report: {bucket}/one/report.html (")
    listed = cli("runs", bucket, "--json")
    assert listed.exit_code == 0, listed.stderr
    [row] = json.loads(listed.stdout)
    assert [row[name] for name in ("store", "scenario", "state", "runs")] == ["s3a://studies/one", "s", "valid", 1]
    assert isinstance(one, Bucket)
    written = [(one / name).read_text("latin-1") for name in one.sizes()]
    assert len(written) > 50
    assert not [text for text in written if SECRET in text]


def test_what_fails_leaves_nothing_in_a_bucket(made: Path, sail: Session, bucket: str) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        rt.run(made / "s.yaml", sail.spark, f"{bucket}/failed", observe=fail)
    assert not root_of(f"{bucket}/failed").exists()


def test_one_program_writes(made: Path, sail: Session, bucket: str, short: None) -> None:
    root = root_of(f"{bucket}/locked")
    with locked(root):
        time.sleep(3)  # longer than a lease that is not renewed
        assert is_being_written(root)
        with pytest.raises(StoreError, match=r"process \d+ on .* is writing the store 's3a://studies/locked'"):
            rt.run(made / "s.yaml", sail.spark, f"{bucket}/locked")
    assert not root.exists()


def test_a_lease_that_its_program_left_behind_is_taken(bucket: str, short: None) -> None:
    root = root_of(f"{bucket}/left")
    (root / LOCK).write_text("process 1 on gone, since long ago\ntoken 1\n")
    said: list[str] = []
    with locked(root, said.append) as check:
        check()
    assert said == ["process 1 on gone, since long ago may be writing the store: waiting for up to 2.5 s to see"]
    assert not root.exists()


def test_who_slept_through_its_lease_commits_nothing(made: Path, sail: Session, bucket: str) -> None:
    """The other program is played by a change of the object; the renewal would find it later than the commit."""
    root, known = root_of(f"{bucket}/slept"), list[int]()

    def steal(progress: Progress) -> None:
        if progress.round == 3:
            known.append(Store(root, sail).version(ROUND_COMMIT.name))
            (root / LOCK).write_text("process 2 on other, since now\ntoken 2\n")

    with pytest.raises(StoreError, match="another program writes the store 's3a://studies/slept' by now"):
        rt.run(made / "s.yaml", sail.spark, f"{bucket}/slept", commit_every=2, observe=steal)
    assert "process 2" in (root / LOCK).read_text()  # the lease of the other stays
    assert [Store(root, sail).version(ROUND_COMMIT.name)] == known


@pytest.mark.parametrize("in_bucket", [True, False])
def test_two_programs_cannot_both_add_to_the_ledger(
    sail: Session, bucket: str, tmp_path: Path, in_bucket: bool
) -> None:
    first, second = (Store(root_of(f"{bucket}/ledger") if in_bucket else tmp_path, sail) for _ in range(2))
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
        ("s3a://nobody/x", "there is no such bucket: check its name and region"),
        ("s3a:///x", "names no bucket; write e.g. s3a://bucket/folder"),
        ("s4a://studies/x", "no store can be at s4a://; did you mean 's3a'?"),
        ("s3a://key:hidden@studies/x", "holds credentials, which would be kept with the store; put them into the env"),
        ("s3a://studies/x", "there is no store 's3a://studies/x'"),
    ],
)
def test_addresses_that_are_wrong(made: Path, bucket: str, address: str, told: str) -> None:
    for command in (["sql", address, "select 1"], ["run", str(made / "s.yaml"), "--store", address]):
        if command[0] == "run" and address == f"{bucket}/x":
            continue
        result = cli(*command)
        assert (result.exit_code, told in result.stderr) == (64, True), result.stderr
        assert "hidden" not in result.stderr
        assert len(result.stderr.splitlines()) <= 2


def test_no_credentials(made: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9/169.254.169.254")
    result = cli("sql", f"{bucket}/one", "select 1")
    assert result.exit_code == 64
    assert "there are no credentials in the environment: set AWS_ACCESS_KEY_ID" in result.stderr


def test_folders_by_address(tmp_path: Path) -> None:
    assert root_of(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert root_of(f"file:{tmp_path}") == tmp_path
    volume, files = root_of("dbfs:/Volumes/main/studies/v"), root_of("dbfs:/studies/one")
    assert (volume, engine_path(volume)) == (Path("/Volumes/main/studies/v"), "/Volumes/main/studies/v")
    assert (files, engine_path(files)) == (Path("/dbfs/studies/one"), "dbfs:/studies/one")


@pytest.mark.spark
@pytest.mark.slow
def test_spark_writes_the_same_rows(made: Path, sail: Session, bucket: str) -> None:
    """In a process of its own: the class path of a JVM that runs cannot be changed."""
    spark = f"{bucket}/spark"
    command = [*program("run", made / "s.yaml", "--engine", "spark", "--store", spark), "--commit-every", "4"]
    told = subprocess.run(command, env={**os.environ, **JVM}, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    assert told.stdout.splitlines()[-1] == f"valid: 1 run, all guarantees hold; history in {spark}"
    here, there = (Store(root, sail) for root in (root_of(spark), made / "finished"))
    for name in ("message", "delivery", "publication", "subscription", "state_routing_entry"):
        assert rows(here, name) == rows(there, name)
