"""Which stores can be resumed, what is refused and why, and what the command says."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import cli, stop
from support.kills import contents

import pipelines as rt
from pipelines.api import run_prepared
from pipelines.engines.session import Session
from pipelines.errors import StoreError
from pipelines.experiment.prepared import prepare
from pipelines.rounds.progress import Progress
from pipelines.store.folder import LOCK, MANIFEST, is_being_written, locked, new_store
from pipelines.store.store import Store
from pipelines.tables import STORE_FORMAT

SCENARIO = """name: small
protocol: {name: forwarding}
overlay: {file: {path: links.csv}}
workload:
  subscriptions: [{at: C, round: 0, topic: a}]
  publications: [{at: A, round: 3, topic: a}, {at: A, round: 5, topic: a}]
time: {rounds: 30}
engine: local
"""


@pytest.fixture(scope="module")
def made(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario, the store of a run that was interrupted, and one of a finished run."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "s.yaml").write_text(SCENARIO)
    (folder / "links.csv").write_text("src,dst\nA,B\nB,C\n")
    with pytest.raises(KeyboardInterrupt) as caught:
        rt.run(folder / "s.yaml", sail.spark, folder / "interrupted", commit_every=2, observe=stop)
    assert caught.value.__notes__ == [f"to resume: roundtable resume {folder / 'interrupted'}"]
    with rt.run(folder / "s.yaml", sail.spark, folder / "finished", commit_every=2) as result:
        assert result.verdict == "valid"
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of the folder; the manifest names the copy's files."""
    shutil.copytree(made, tmp_path / "copy")
    for store in ("interrupted", "finished"):
        manifest = tmp_path / "copy" / store / MANIFEST
        manifest.write_text(manifest.read_text().replace(str(made), str(tmp_path / "copy")))
    return tmp_path / "copy"


def change_manifest(store: Path, **values: Any) -> None:
    manifest = json.loads((store / MANIFEST).read_text())
    (store / MANIFEST).write_text(json.dumps(manifest | values))


def test_the_store_is_enough_to_go_on(folder: Path, sail: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "s.yaml").unlink()
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    result = cli("resume", "../interrupted")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[:4] == [
        "building 1 run", "overlay: file.latency names no column, so every link takes 1 round",
        "resuming after round 3",
        "forwarding: program, 3 nodes per run do not exceed 20,000; at most 30 rounds on local",
    ]  # fmt: skip
    assert result.stdout.splitlines()[-1] == "valid: 1 run, all guarantees hold; history in ../interrupted"
    assert contents(sail, folder / "interrupted") == contents(sail, folder / "finished")


def test_a_store_without_a_table_is_refused_before_anything_is_written(folder: Path, sail: Session) -> None:
    store = folder / "interrupted"
    shutil.rmtree(store / "delivery")
    before = Store(store, sail).version("message")
    result = cli("resume", store)
    assert result.exit_code == 64
    assert "is damaged: the folder of table 'delivery' is missing" in result.stderr
    assert Store(store, sail).version("message") == before


def test_a_finished_store_says_so(folder: Path) -> None:
    result = cli("resume", folder / "finished")
    assert (result.exit_code, result.stderr) == (0, "")
    said = f"finished: 1 run ended in round 7 and was found valid; history in {folder / 'finished'}\n"
    assert result.stdout == said
    change_manifest(folder / "finished", versions={})
    [line] = cli("resume", folder / "finished", "--json").stdout.splitlines()
    assert json.loads(line) == {"event": "finished", "verdict": "valid", "store": str(folder / "finished")}


def test_a_run_that_ended_before_its_audit_is_audited(folder: Path, sail: Session) -> None:
    run_prepared(prepare(folder / "s.yaml"), spark=sail.spark, store=folder / "new", commit_every=2).close()
    with rt.open_store(folder / "new", sail.spark) as result:
        assert (result.verdict, result.is_audited) == ("unknown", False)
    result = cli("resume", folder / "new", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("valid: 1 run, all guarantees hold; ")
    assert contents(sail, folder / "new") == contents(sail, folder / "finished")


def test_a_store_that_is_written_is_refused(folder: Path, sail: Session) -> None:
    with locked(folder / "interrupted"):
        result = cli("resume", folder / "interrupted")
        assert result.exit_code == 64
        store = repr(str(folder / "interrupted"))
        writer = rf"process {os.getpid()} on \S+, since \S+"
        told = rf"error: {writer} is writing the store {store}; wait until it ends, or stop it\n"
        assert re.fullmatch(told, result.stderr)
    with locked(folder / "finished"), rt.open_store(folder / "finished", sail.spark) as opened:
        assert opened.table("delivery").count() == 2
        with pytest.raises(StoreError, match=f"process {os.getpid()} on .* is writing"):
            opened.audit()
    (folder / "new").mkdir()
    with locked(folder / "new"):
        assert "is writing the store" in cli("run", folder / "s.yaml", "--store", folder / "new").stderr
    with locked(folder / "finished"):
        result = cli("run", folder / "s.yaml", "--store", folder / "finished")
        assert "is writing it; wait until it ends, or name a new folder" in result.stderr
    result = cli("run", folder / "s.yaml", "--store", folder / "interrupted")
    assert f"if its run was interrupted, to resume: roundtable resume {folder / 'interrupted'}" in result.stderr


def other_version(folder: Path) -> None:
    manifest = json.loads((folder / "interrupted" / MANIFEST).read_text())
    change_manifest(folder / "interrupted", versions=manifest["versions"] | {"roundtable-pubsub": "0.0.9"})


def other_scenario(folder: Path) -> None:
    (folder / "s.yaml").write_text(SCENARIO + "# changed\n")


def other_links(folder: Path) -> None:
    (folder / "links.csv").write_text("src,dst\nA,B\nA,C\n")


def no_links(folder: Path) -> None:
    (folder / "links.csv").unlink()


def other_engine(folder: Path) -> None:
    change_manifest(folder / "interrupted", engine="spark")


def damaged_manifest(folder: Path) -> None:
    (folder / "interrupted" / MANIFEST).write_text(json.dumps({"store_format": STORE_FORMAT}))


def unknown_setting(folder: Path) -> None:
    change_manifest(folder / "interrupted", later="a setting")


def no_manifest(folder: Path) -> None:
    (folder / "interrupted" / MANIFEST).unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            other_version,
            r"it was started with roundtable-pubsub 0\.0\.9, this is .*: install roundtable-pubsub==0\.0\.9",
        ),
        (other_scenario, r"the scenario .*s\.yaml has changed since the start of the run: restore the old text"),
        (other_links, r"the input file .*links\.csv has changed since the start of the run: restore the old file"),
        (no_links, r"the input file .*links\.csv is missing: restore it"),
        (other_engine, "it was started on spark, this session is of local: take one of spark"),
        (unknown_setting, r"its experiment\.json, .* cannot be read \(it is damaged\)"),
        (damaged_manifest, r"its experiment\.json, which has the settings, cannot be read \(it is damaged\)"),
        (no_manifest, r"its experiment\.json, which has the settings, cannot be read \(No such file or directory\)"),
    ],
)
def test_what_is_another_experiment_now_is_refused_with_the_reason(
    folder: Path, sail: Session, change: Callable[[Path], None], words: str
) -> None:
    before = contents(sail, folder / "interrupted")
    change(folder)
    with pytest.raises(StoreError, match=f"cannot be resumed: .*{words}.*with a new --store|{words}; run the"):
        rt.resume(folder / "interrupted", sail.spark)
    assert contents(sail, folder / "interrupted") == before


def test_all_that_changed_is_told_at_once(folder: Path) -> None:
    for change in (other_version, other_scenario, other_links):
        change(folder)
    result = cli("resume", folder / "interrupted")
    assert result.exit_code == 64
    assert result.stderr.count("\n") == 1
    assert all(words in result.stderr for words in ("0.0.9", "s.yaml has changed", "links.csv has changed"))


COMMANDS = {
    "resume": (), "audit": (), "why": ("--run", "0", "--subscriber", "C", "--source", "A", "--seq", "1"),
    "sql": ("select 1",), "compare-node": ("--run", "0", "--node", "B"), "export": ("--run", "0"),
}  # fmt: skip


@pytest.mark.parametrize("written", [None, STORE_FORMAT + 1], ids=["the first format", "a later format"])
def test_a_store_of_another_format_is_refused_by_every_command(
    folder: Path, sail: Session, written: int | None
) -> None:
    """The first format had no number."""
    store = folder / "finished"
    manifest = json.loads((store / MANIFEST).read_text())
    assert manifest.pop("store_format") == STORE_FORMAT
    (store / MANIFEST).write_text(json.dumps(manifest if written is None else manifest | {"store_format": written}))
    message = (
        f"the store {str(store)!r} is of format {written or 1}, this program reads format {STORE_FORMAT}; "
        "run the scenario again, or read it with the version that wrote it"
    )
    for command, arguments in COMMANDS.items():
        result = cli(command, store, *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (64, "", f"error: {message}\n"), command
    for opened in (rt.open_store, rt.resume):
        with pytest.raises(StoreError) as caught:
            opened(store, sail.spark)
        assert str(caught.value) == message


def test_a_kill_before_the_manifest_leaves_a_folder_for_a_new_run(folder: Path) -> None:
    store = folder / "new"
    store.mkdir()
    (store / LOCK).touch()
    (store / ".0123cdef.part").write_text("{")
    assert "is not a store" in cli("resume", store).stderr
    assert cli("run", folder / "s.yaml", "--store", store, "--quiet").exit_code == 0


def test_a_kill_before_the_first_table_can_be_gone_on_with(folder: Path, sail: Session) -> None:
    store = folder / "new"
    store.mkdir()
    shutil.copy(folder / "interrupted" / MANIFEST, store)
    assert f"contains no complete round; wait, or if its program has ended, to resume: roundtable resume {store}" in (
        cli("sql", store, "select 1").stderr
    )
    assert "it contains a store" in cli("run", folder / "s.yaml", "--store", store).stderr
    assert "resuming from the beginning" in cli("resume", store).stderr
    assert contents(sail, store) == contents(sail, folder / "finished")


def test_latest_points_to_a_run_from_its_start(folder: Path, sail: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    latest = Path("runs/small/latest")

    def stop_at_once(progress: Progress) -> None:
        assert is_being_written(latest)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rt.run("s.yaml", sail.spark, observe=stop_at_once)
    assert not Path("runs").exists()
    with pytest.raises(KeyboardInterrupt):
        rt.run("s.yaml", sail.spark, commit_every=2, observe=stop)
    store = latest.readlink()
    with pytest.raises(KeyboardInterrupt):
        rt.run("s.yaml", sail.spark, observe=stop_at_once)
    assert latest.readlink() == store
    assert not is_being_written(latest)
    assert [(line.split()[1:3]) for line in cli("runs").stdout.splitlines()[2:]] == [["s", "interrupted"]]
    with rt.resume(latest, sail.spark) as result:
        assert result.verdict == "valid"
    assert latest.readlink() == store
    [row] = json.loads(cli("runs", "--json").stdout)
    assert row.pop("MB") > 0.1
    assert row == {
        "store": f"runs/small/{store}", "scenario": "s", "state": "valid", "runs": 1, "parameters": "forwarding",
        "settings": "",
    }  # fmt: skip


def test_a_copy_in_place_of_the_link_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some programs that copy folders copy the target of a link."""
    (tmp_path / "runs" / "small" / "latest").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    with new_store(None, "small", told.append) as (root, _):
        is_copy = "is an older copy, not a link to this run"
        assert told == [f"runs/small/latest {is_copy}; the store is {root}; remove the copy"]
        assert {path.name for path in Path("runs/small").iterdir()} == {"latest", root.name}
