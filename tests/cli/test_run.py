"""The command line with an engine: runs, audits and queries of whole stores."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import IO

import pyarrow.parquet as pq
import pytest
from support.commands import cli
from support.jvm import JVM
from typer.testing import CliRunner, Result

import pipelines as rt
from pipelines.audits.run import GENERAL
from pipelines.cli.app import app
from pipelines.store.folder import locked
from pipelines.why.overview import Group, Overview

LINKS = "overlay: {links: [[P, B2, 1], [B2, B1, 6], [B1, S1, 1], [B1, S2, 1]]}\n"
SCENARIO = (
    "name: small\nprotocol: {name: delta}\n" + LINKS + "workload:\n"
    "  subscriptions: [{at: S2, round: 0, topic: a}]\n"
    "  publications: [{at: P, round: 30, topic: a, content: {x: 1}}, {at: B1, round: 31, topic: b}]\n"
    "time: {rounds: 200}\nengine: local\nruns: {grid: {protocol.delta: [0, 1]}}\n"
)
# Figure 1 of the report: S1's subscription is at B1 but not yet at B2 when p2 is published.
LOSSY = (
    "name: lossy\nprotocol: {name: forwarding}\n" + LINKS + "workload:\n"
    '  subscriptions: [{at: S2, round: 0, where: "item = 1"}, {at: S1, round: 20, topic: news}]\n'
    "  publications:\n"
    "    - {at: P, round: 19, topic: news, content: {item: 1}}\n"
    "    - {at: P, round: 21, topic: news, content: {item: 2}}\n"
    "    - {at: P, round: 40, topic: news, content: {item: 3}}\n"
    "time: {rounds: 200}\nengine: local\n"
)


def scenario_file(folder: Path, text: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(text)
    return path


@contextmanager
def started(command: Sequence[str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A program, what it prints and what it complains; it is killed with the test, or if it hangs."""
    with subprocess.Popen(
        command, cwd=folder, env=os.environ | JVM, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        late = Timer(300, running.kill)
        late.start()
        try:
            yield running, running.stdout, running.stderr
        finally:
            late.cancel()
            running.kill()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A folder with a finished default store, and what its run printed."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder, cli("run", scenario_file(folder, SCENARIO))


def test_an_interruption_of_the_audits_says_how_to_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.result.Result.audit", stop)
        stopped = cli("run", scenario_file(tmp_path, SCENARIO), "--store", tmp_path / "a store")
    assert stopped.exit_code == 130
    said = stopped.stderr.splitlines()[-1]
    hint = f"interrupted; the runs are finished; to check them: roundtable audit '{tmp_path / 'a store'}'"
    assert said == hint
    assert cli("audit", shlex.split(said)[-1]).exit_code == 0


def query(small: tuple[Path, Result], statement: str, *options: str) -> Result:
    return cli("sql", small[0] / "runs/small/latest", statement, *options)


def test_a_run_ends_with_its_table_and_the_verdict(small: tuple[Path, Result]) -> None:
    folder, result = small
    assert result.exit_code == 0
    store = next(path for path in (folder / "runs/small").iterdir() if not path.is_symlink())
    head, _, *rows, _, last = result.stdout.splitlines()
    assert head.split()[:3] == ["run", "seed", "protocol.delta"]
    # P to S2 takes 1 + 6 + 1 rounds; nobody wants topic b.
    assert [row.split()[:6] for row in rows] == [["0", "0", "0", "2", "1", "1/1"], ["1", "0", "1", "2", "1", "1/1"]]
    assert all("   8 (80 ms)     8 (80 ms)   " in row and row.endswith("   valid") for row in rows)
    assert last == f"valid: 2 runs, all guarantees hold; history in runs/small/{store.name}"
    assert result.stderr.splitlines()[0] == "building 2 runs"
    assert (folder / "runs/small/latest").readlink() == Path(store.name)


def test_an_audit_finds_again_what_the_run_found(small: tuple[Path, Result]) -> None:
    result = cli("audit", small[0] / "runs/small/latest")
    assert result.exit_code == 0
    assert "exactly_once" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("valid: 2 runs, all guarantees hold; history in ")


def test_a_query_answers_in_each_format(small: tuple[Path, Result]) -> None:
    statement = "select name, cast(null as bigint) as nothing, 'a, \"b\"' as text from node where run_id = 0 order by 1"
    rows = json.loads(query(small, statement, "--format", "json").stdout)
    assert rows[0] == {"name": "B1", "nothing": None, "text": 'a, "b"'}
    assert [row["name"] for row in rows] == ["B1", "B2", "P", "S1", "S2"]
    text = query(small, statement, "--format", "csv").stdout
    assert text.splitlines()[:2] == ["name,nothing,text", 'B1,,"a, ""b"""']
    assert len(list(csv.DictReader(io.StringIO(text)))) == 5
    table = query(small, statement).stdout.splitlines()
    assert [line.split()[:2] for line in table[2:]] == [[row["name"], "null"] for row in rows]


def test_a_long_table_is_cut_and_says_so(small: tuple[Path, Result]) -> None:
    result = query(small, "select explode(sequence(1, 1500)) as n")
    assert len(result.stdout.splitlines()) == 1002
    assert "--format csv" in result.stderr
    assert len(query(small, "select explode(sequence(1, 1500)) as n", "--format", "csv").stdout.splitlines()) == 1501


def test_a_query_as_of_a_round_sees_what_had_happened(small: tuple[Path, Result]) -> None:
    counts = [
        json.loads(query(small, "select count(1) as n from delivery", "--format", "json", *options).stdout)[0]["n"]
        for options in (("--as-of-round", "37"), ("--as-of-round", "38"), ())
    ]
    assert counts == [0, 2, 2]


@pytest.mark.parametrize(
    ("statement", "options", "words"),
    [
        ("select * from delivry", (), "did you mean 'delivery'?"),
        ("select nam from node", (), "did you mean 'name'?"),
        ("drop table node", (), "a store is only read"),
        ("select * from node where", (), "the statement cannot be answered: it ends too early"),
        ("select assert_true(run_id < 0) from run", (), "the statement cannot be answered"),
        ("select 1 as a, 2 as a", ("--format", "json"), "a names several columns"),
        ("select * from node", ("--as-of-round", "-1"), "before the first round"),
    ],
)
def test_a_wrong_query_is_one_line(
    small: tuple[Path, Result], statement: str, options: tuple[str, ...], words: str
) -> None:
    result = query(small, statement, *options)
    assert result.exit_code == 64
    assert result.stdout == ""
    assert words in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_server_selects_its_engine(monkeypatch: pytest.MonkeyPatch, small: tuple[Path, Result]) -> None:
    """A store is otherwise read on engine local. To resume a store takes the engine that began it."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    monkeypatch.setattr("pipelines.engines.remote.ANSWER_SECONDS", 0.5)
    store = small[0] / "runs/small/latest"
    assert cli("sql", store, "select 1").exit_code == 0
    for options in ((), ("--engine", "auto")):
        told = cli("sql", store, "select 1", *options, "--remote", "sc://127.0.0.1:2")
        assert (told.exit_code, "no Spark Connect server answers at sc://127.0.0.1:2" in told.stderr) == (64, True)
    told = cli("resume", store, "--remote", "sc://127.0.0.1:2")
    assert (told.exit_code, "but the engine is local; omit --remote" in told.stderr) == (64, True)


def test_a_store_is_not_written_twice(small: tuple[Path, Result]) -> None:
    folder, _ = small
    result = cli("run", folder / "s.yaml", "--store", folder / "runs/small/latest")
    assert result.exit_code == 64
    assert "it contains a store" in result.stderr
    result = cli("sql", folder / "runs/small", "select 1")
    assert "its stores are " in result.stderr


def test_a_broken_guarantee_is_1_and_told_by_name(tmp_path: Path) -> None:
    result = cli("run", scenario_file(tmp_path, LOSSY), "--store", tmp_path / "store")
    assert result.exit_code == 1
    assert "exactly_once is broken once: " in result.stdout
    assert "  run 0, round 21, node S1, publication 2 (call 2) of P: " in result.stdout
    last = f"invalid: 1 of 1 run broke a guarantee (exactly_once once); history in {tmp_path / 'store'}"
    assert result.stdout.splitlines()[-1] == last
    audited = cli("audit", tmp_path / "store")
    assert audited.exit_code == 1
    assert audited.stdout.splitlines()[-1] == last
    resumed = cli("resume", tmp_path / "store")
    assert (resumed.exit_code, "and was found invalid" in resumed.stdout) == (1, True)


def test_hints_stories_and_diagrams_name_a_publication_by_both_its_numbers(tmp_path: Path) -> None:
    """P subscribes first, so that its second publication is its third call."""
    text = LOSSY.replace("subscriptions: [", "subscriptions: [{at: P, round: 0, topic: other}, ")
    store = tmp_path / "store"
    told = cli("run", scenario_file(tmp_path, text), "--store", store).stdout
    assert "  run 0, round 21, node S1, publication 2 (call 3) of P: " in told
    [hint] = [
        line.strip() for line in told.splitlines() if line.strip().startswith("roundtable why") and "--call" in line
    ]
    heading = "run 0: publication 2 (call 3) of P for S1"
    answer = cli(*shlex.split(hint)[1:], "--svg", tmp_path / "why.svg").stdout
    assert answer.startswith(f"{heading}; path: ")
    assert cli("why", store, "--subscriber", "S1", "--source", "P", "--seq", "2").stdout == answer
    drawn = (tmp_path / "why.svg").read_text("utf-8")
    assert heading in drawn
    assert ">subscribe<" in drawn


def test_a_horizon_that_comes_early_is_2(tmp_path: Path) -> None:
    path = scenario_file(tmp_path, SCENARIO)
    result = cli("run", path, "--quiet", "--store", tmp_path / "new/store", "--set", "time.rounds=31")
    assert result.exit_code == 2
    assert result.stderr == ""
    [line] = result.stdout.splitlines()
    assert line.startswith("unknown: 2 of 2 runs not decided: messages were in flight at the horizon; history in ")


def test_json_is_one_object_a_line_and_the_last_is_the_verdict(tmp_path: Path) -> None:
    path = scenario_file(tmp_path, SCENARIO)
    result = cli("run", path, "--json", "--store", tmp_path / "store", "--set", "runs={}", "--commit-every", "5")
    assert (result.exit_code, result.stderr) == (0, "")
    *events, last = map(json.loads, result.stdout.splitlines())
    rounds = [event for event in events if event["event"] == "round"]
    assert rounds[-1]["in_flight"] == 0
    assert rounds[-1]["messages"] > 0
    assert last["event"] == "verdict"
    assert last["verdict"] == "valid"
    assert last["runs"] == {"valid": 1, "invalid": 0, "unknown": 0}
    assert last["store"] == str(tmp_path / "store")
    assert set(last["violations"].values()) == {0}
    [run] = [event for event in events if event["event"] == "run"]
    assert (run["run_id"], run["verdict"], run["n_deliveries"]) == (0, "valid", 1)
    again = cli("audit", tmp_path / "store", "--json")
    assert json.loads(again.stdout) == last


def test_audits_that_cannot_run_decide_nothing(small: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch) -> None:
    columns, without = "subscriber as node_id, source, source_seq", "source, source_seq, '' as detail"
    wrong = {
        "select no_such_column from delivery": "column 'no_such_column' does not exist",
        f"select run_id, round, {without} from delivery": "returns no column 'node_id'; the result",
        f"select run_id, 'one' as round, {columns}, '' as detail from delivery": (
            "returns column 'round' with type string; allowed: int64"
        ),
        f"select run_id, 1.5 as round, {columns}, null as detail from delivery": "returns column 'round' with type d",
    }
    audits = [replace(GENERAL[0], name=f"wrong{number}", find=find) for number, find in enumerate(wrong)]
    monkeypatch.setattr("pipelines.audits.run.GENERAL", (*audits, *GENERAL[1:]))
    result = cli("audit", small[0] / "runs/small/latest")
    monkeypatch.undo()
    assert result.exit_code == 2
    told = " ".join(result.stdout.split())
    for number, reason in enumerate(wrong.values()):
        assert reason in told.split(f"wrong{number} could not be checked: ")[1].split("could not be checked")[0]
    last = "not decided: no audit of wrong0, wrong1, wrong2, wrong3; history"
    assert last in result.stdout.splitlines()[-1]
    assert cli("audit", small[0] / "runs/small/latest").exit_code == 0


def test_an_error_on_the_way_leaves_nothing_that_looks_like_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("in a round")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipelines.rounds.loop.Loop.run", fail)
    result = cli("run", scenario_file(tmp_path, SCENARIO))
    assert result.exit_code == 70
    assert "internal error: ZeroDivisionError: in a round" in result.stderr
    assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_an_interruption_before_the_command_begins_ends_quietly(tmp_path: Path) -> None:
    """It comes in the midst of the imports."""
    program = (
        "import os, signal, sys\nfrom pipelines import cli\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\ncli.main()\n"
    )
    with started([sys.executable, "-c", program, "list"], tmp_path) as (running, out, err):
        assert (out.read(), err.read(), running.wait(60)) == ("", "interrupted\n", 130)


@pytest.mark.usefixtures("heeded_signals")
@pytest.mark.parametrize(
    ("engine", "sent"),
    [
        ("local", signal.SIGINT),
        ("local", signal.SIGTERM),
        ("local", signal.SIGHUP),
        pytest.param("spark", signal.SIGINT, marks=pytest.mark.spark),
        pytest.param("spark", signal.SIGTERM, marks=pytest.mark.spark),
    ],
)
def test_an_interruption_ends_at_once_and_what_was_committed_can_be_asked(
    tmp_path: Path, engine: str, sent: signal.Signals
) -> None:
    # A call in each round: a run of few rounds may be over when its first line is read.
    later = "".join(f", {{at: B1, round: {round_}, topic: b}}" for round_ in range(32, 190))
    path = scenario_file(tmp_path, SCENARIO.replace("round: 31, topic: b}", f"round: 31, topic: b}}{later}"))
    command = [sys.executable, "-m", "pipelines", "run", str(path), "--json", "--store", "store", "--commit-every", "1"]
    with started([*command, "--engine", engine], tmp_path) as (running, out, err):
        for line in out:
            event = json.loads(line)
            if event["event"] == "round" and event["round"] >= 2:
                break
        running.send_signal(sent)
        stderr = err.read()
        out.read()
        assert running.wait(120) == 128 + sent
    assert stderr == "interrupted; to resume: roundtable resume store\n"
    asked = cli("sql", tmp_path / "store", "select verdict from run", "--format", "json")
    assert json.loads(asked.stdout) == [{"verdict": None}] * 2
    audited = cli("audit", tmp_path / "store")
    assert audited.exit_code == 2
    assert audited.stdout.startswith("unknown: the runs are not finished, round ")


LONG_BLOCK = """
name: bank
protocol: {name: ginger}
overlay:
  links: [[B0, B1], [B1, B2]]
  clients: [{name: C0, at: B0}, {name: C1, at: B2}]
workload:
  subscriptions: [{at: C0, topic: bank}, {at: C1, topic: bank}]
  publications: {generate: {kind: bank, round: 60, accounts: 10, operations: 60000, interval: 5}}
time: {rounds: 500000}
"""


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_an_interruption_ends_a_block_before_its_time(tmp_path: Path, engine: str) -> None:
    """All the rounds are one job here, which takes minutes."""
    path = scenario_file(tmp_path, LONG_BLOCK)
    command = [sys.executable, "-m", "pipelines", "run", str(path), "--json", "--store", "store", "--engine", engine]
    with started([*command, "--commit-every", "500000"], tmp_path) as (running, out, err):
        while not list((tmp_path / "store" / "node").glob("*.parquet")):
            assert running.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        assert err.read() == "interrupted\n"
        assert '"round"' not in out.read()


def test_an_interruption_ends_a_handler_that_never_returns(tmp_path: Path) -> None:
    program = (
        "import time\nfrom pathlib import Path\nfrom pipelines import cli\nfrom udfs.nodes.context import Context\n"
        "def hang(*_):\n"
        "    Path('hanging').touch()\n"
        "    while True: time.sleep(1)\n"
        "Context.deliver = hang\ncli.main()\n"
    )
    path = scenario_file(tmp_path, SCENARIO)
    with started([sys.executable, "-c", program, "run", str(path), "--engine", "local"], tmp_path) as (running, _, err):
        while not (tmp_path / "hanging").exists():
            assert running.poll() is None
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        assert err.read().endswith("interrupted\n")
    assert not [*(tmp_path / "runs").glob("*")]


def test_why_lists_what_went_wrong_and_tells_the_first(tmp_path: Path) -> None:
    store = tmp_path / "store"
    cli("run", scenario_file(tmp_path, LOSSY), "--store", store, "--quiet")
    told = cli("why", store).stdout
    assert re.search(r"^missing +1 +0 +.*round 28", told, re.MULTILINE)
    assert "run 0: publication 2 (call 2) of P for S1; path: P - B2 - B1 - S1\n" in told
    [line] = map(json.loads, cli("why", store, "--json").stdout.splitlines())
    assert (line["what"], line["number"], line["first"]["subscriber"], line["first"]["seq"]) == ("missing", 1, "S1", 2)
    assert line["command"] in told
    again = cli(*shlex.split(line["command"])[1:]).stdout
    assert again == cli("why", store, "--subscriber", "S1", "--source", "P", "--seq", "2").stdout
    assert again in told
    assert "--subscriber and --source together" in cli("why", store, "--subscriber", "S1").stderr


def test_why_counts_the_deliveries_that_it_does_not_explain(
    small: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = {"twice": 12, "missing": 1}
    store = small[0] / "runs/small/latest"
    with rt.open_store(store) as result:
        found = Overview([Group("late", "slow", [result.why(0, "S2", "P", 1)])], left_out)
    monkeypatch.setattr("pipelines.why.overview.overview", lambda *_: found)
    assert [json.loads(line) for line in cli("why", store, "--json").stdout.splitlines()[1:]] == [
        {"what": what, "left_out": number} for what, number in left_out.items()
    ]
    shown = " ".join(cli("why", store).stdout.split())
    assert "12 more were delivered twice, beyond the first 300: --run explains" in shown


def test_what_a_subscriber_missed_while_it_was_down_is_explained_too(tmp_path: Path) -> None:
    text = SCENARIO.replace("engine: local", "faults: [{kind: crash, node: S2, round: 20}]\nengine: local")
    others = "subscriptions: [{at: S1, round: 0, topic: a}, {at: P, topic: c}, "
    text = text.replace("[0, 1]", "[1]").replace("subscriptions: [", others)
    ran = cli("run", scenario_file(tmp_path, text), "--store", tmp_path / "store")
    assert (ran.exit_code, "why 1 wanted delivery is missing: " in ran.stdout) == (0, True)
    [line] = map(json.loads, cli("why", tmp_path / "store", "--json").stdout.splitlines())
    assert (line["what"], line["number"], line["first"]["subscriber"]) == ("excused", 1, "S2")
    told = cli("why", tmp_path / "store").stdout
    assert "excused: S2 was down or recovering (crash in round 20)" in told
    # Its first publication is its second call.
    assert (line["first"]["seq"], line["first"]["call"]) == (1, 2)
    assert cli("why", tmp_path / "store", "--subscriber", "S2", "--source", "P", "--seq", "1").stdout in told


def test_where_nothing_went_wrong_there_is_nothing_to_explain(small: tuple[Path, Result]) -> None:
    assert cli("why", small[0] / "runs/small/latest").stdout.startswith("nothing to explain: ")
    several = cli("why", small[0] / "runs/small/latest", "--subscriber", "S2", "--source", "P", "--seq", "1")
    assert (several.exit_code, "the store has 2 runs; name one with --run" in several.stderr) == (64, True)


def test_queries_come_from_files_and_stdin_and_go_to_files(small: tuple[Path, Result], tmp_path: Path) -> None:
    text = "-- how many?\nselect count(1) as n -- all\nfrom run"
    (tmp_path / "q.sql").write_text(text)
    store = small[0] / "runs/small/latest"
    assert cli("sql", store, "-f", tmp_path / "q.sql", "--json").stdout == '[\n{"n": 2}\n]\n'
    asked = CliRunner().invoke(app, ["sql", str(store), "-", "--format", "csv"], input=text)
    assert asked.stdout == "n\n2\n"
    cli("sql", store, text.partition("\n")[2], "--format", "parquet", "-o", tmp_path / "n.parquet")
    assert pq.read_table(tmp_path / "n.parquet").to_pylist() == [{"n": 2}]
    assert "missing argument" in cli("sql", store).stderr.lower()
    assert "cannot be read: No such file" in cli("sql", store, "-f", tmp_path / "none.sql").stderr
    assert "cannot be written: No such file" in cli("sql", store, "select 1", "-o", tmp_path / "none" / "x").stderr
    assert "cannot be written: File name too long" in cli("sql", store, "select 1", "-o", tmp_path / ("x" * 256)).stderr
    assert cli("export", store, "--run", "0", "-o", tmp_path / "run.jsonl").stdout == ""
    assert '"f": "publish"' in (tmp_path / "run.jsonl").read_text()


def test_stores_are_listed_with_verdict_size_and_parameters(small: tuple[Path, Result]) -> None:
    [row] = json.loads(cli("runs", small[0] / "runs", "--json").stdout)
    assert (row["scenario"], row["state"], row["runs"], row["settings"]) == ("s", "valid", 2, "")
    assert row["parameters"] == "delta; protocol.delta: 0, 1"
    assert row["MB"] > 0
    rows = csv.DictReader(io.StringIO(cli("runs", small[0] / "runs", "--format", "csv").stdout))
    assert [one["parameters"] for one in rows] == [row["parameters"]]


def test_stores_are_removed_as_a_whole_and_only_on_request(small: tuple[Path, Result], tmp_path: Path) -> None:
    made = tmp_path / "runs" / "small"
    (source,) = [path for path in (small[0] / "runs/small").iterdir() if not path.is_symlink()]
    for name in ("first", "second"):
        shutil.copytree(source, made / name)
    (made / "latest").symlink_to("second")
    refused = cli("runs", made, "--remove")
    assert (refused.exit_code, "nothing is removed" in refused.stderr) == (64, True)
    with locked(made / "first"):
        busy = cli("runs", made, "--remove", "--yes")
    assert (busy.exit_code, "is writing the store" in busy.stderr) == (64, True)
    assert {path.name for path in made.iterdir()} == {"first", "second", "latest"}
    (made / ".removed-older").mkdir()
    (made / "a_link").symlink_to("first")
    (made / "here").symlink_to(".")
    listed = json.loads(cli("runs", made, "--json").stdout)
    assert [Path(row["store"]).name for row in listed] == ["first", "second"]
    for link in ("a_link", "here"):
        (made / link).unlink()
    assert cli("runs", made / "second", "--remove", "--yes").exit_code == 0
    assert {path.name for path in made.iterdir()} == {"first", "latest"}
    assert (made / "latest").resolve().name == "first"
    (made / "latest").unlink()
    (made / "latest").symlink_to("gone")
    assert "removed: 1 store" in cli("runs", tmp_path / "runs", "--remove", "--yes").stdout
    assert list(made.iterdir()) == []
    none = cli("runs", tmp_path, "--remove", "--yes")
    assert (none.exit_code, "contains no store" in none.stderr) == (64, True)


@pytest.mark.parametrize("damaged", ["run/*.parquet", "run/_delta_log/*.json"])
def test_a_damaged_store_does_not_hide_the_others(small: tuple[Path, Result], tmp_path: Path, damaged: str) -> None:
    (source,) = [path for path in (small[0] / "runs/small").iterdir() if not path.is_symlink()]
    for name in ("first", "second"):
        shutil.copytree(source, tmp_path / name)
    for file in (tmp_path / "first").glob(damaged):
        file.write_bytes(b"{")
    rows = json.loads(cli("runs", tmp_path, "--json").stdout)
    assert [(row["scenario"], row["state"], row["runs"]) for row in rows] == [("s", "damaged", None), ("s", "valid", 2)]
    assert "removed: 1 store" in cli("runs", tmp_path / "first", "--remove", "--yes").stdout


def test_a_closed_pipe_ends_without_a_traceback(small: tuple[Path, Result]) -> None:
    store = small[0] / "runs/small/latest"
    command = [sys.executable, "-m", "pipelines", "sql", str(store), "select explode(sequence(1, 200000))"]
    with started([*command, "--format", "csv"], small[0]) as (running, out, err):
        assert out.readline() == "col\n"
        out.close()
        assert err.read() == ""
        assert running.wait(60) == 141
