"""The command line as far as no engine runs: help, lists, exit codes, plans, wrong commands and wrong stores."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from support.commands import cli
from typer.main import get_group
from typer.testing import CliRunner

import pipelines
from pipelines.cli import app as commands, listing
from pipelines.cli.app import app
from pipelines.errors import InternalError, RoundtableError
from pipelines.files import installed_data
from pipelines.scenario.load import load_scenario

EXAMPLE = """name: example
protocol: {name: delta}
overlay: {links: [[A, B], [B, C], [C, D], [C, E]]}
workload:
  subscriptions: [{at: A, round: 1, topic: a, until: 9}, {at: E, topic: a}]
  publications: [{at: D, round: 5, topic: a}]
time: {rounds: 20}
runs: {seeds: [0, 1, 2], grid: {protocol.delta: [0, 2]}}
engine: local
"""
SEEDS = (
    "runs: the 3 seeds draw nothing, as neither the scenario nor its protocol leaves anything to chance: "
    "their runs are equal, and one seed is enough"
)
COMMANDS = ["list", "schema", "doctor", "runs", "init", "validate", "plan", "run", "resume", "audit", "why",
            "compare-node", "sql", "export", "report", "plot", "compare", "extract", "shrink", "diff"]  # fmt: skip


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A right scenario; the working directory is an empty one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "s.yaml").write_text(EXAMPLE)
    return tmp_path / "s.yaml"


def test_who_starts_an_engine_may_name_a_connect_server() -> None:
    """All but ``plan``, which starts none."""
    options = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in get_group(app).commands.items()
    }
    with_engine = {name for name, of_command in options.items() if "--engine" in of_command}
    assert {name for name in with_engine if "--remote" not in options[name]} == {"plan"}
    assert "export" in with_engine


@pytest.mark.parametrize("engine", ["local", "spark", "sail"])
@pytest.mark.parametrize("command", [("run", "single_crash"), ("sql", "store", "select 1"), ("diff", "a", "b")])
def test_a_server_is_refused_beside_another_engine(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], engine: str
) -> None:
    """In both orders of the options. A server named by the environment is for the commands that use it."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    options = (("--engine", engine), ("--remote", "sc://127.0.0.1:1"))
    for first, second in (options, options[::-1]):
        told = cli(*command, *first, *second)
        assert told.exit_code == 64
        assert "but the engine is " + engine.replace("sail", "local") in told.stderr
    assert "--remote" not in cli(*command, *options[0]).stderr


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_fits_a_screen_and_names_the_commands_that_exist(arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) <= 41
    assert all(name in result.stdout for name in (*COMMANDS, "70"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    result = cli(command, "--help")
    assert result.exit_code == 0
    assert f"Example: roundtable {command} " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_a_type_that_readers_know(command: str) -> None:
    assert "<Any>" not in cli(command, "--help").stdout


def test_a_plan_as_json_has_what_the_text_says(example: Path) -> None:
    plan = json.loads(cli("plan", example, "--json").stdout)
    assert (plan["n_runs"], len(plan["combinations"]) * len(plan["seeds"])) == (6, 6)
    told = cli("plan", example, "--verbose").stdout
    assert f"at most {plan['rounds']:,} rounds of {plan['round_ms'][0]:g} ms" in told
    [one, *_] = plan["combinations"]
    line = next(line.split() for line in told.splitlines() if line.startswith("0 "))
    assert [one["n_nodes"], one["n_links"], one["diameter"]] == [int(text) for text in line[1:4]]
    assert all(table["table"] in told for table in plan["tables"])


def test_version() -> None:
    assert cli("--version").stdout == "roundtable 0.1.0\n"


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("roundtable com", ["compare", "compare-node"]),
        ("roundtable run quick", ["quickstart"]),
        ("roundtable run --eng", ["--engine"]),
        ("roundtable run quickstart --engine s", ["spark"]),
        ("roundtable sql runs/x -f q.sql --format p", ["parquet"]),
        ("roundtable audit runs/x --fail-on b", ["beyond"]),
        ("roundtable list pro", ["protocols"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(typed: str, completed: list[str]) -> None:
    asked = {"_ROUNDTABLE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    found = CliRunner().invoke(app, [], prog_name="roundtable", env=asked)
    assert sorted(found.stdout.split()) == sorted(completed)


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("protocols", "delta"),
        ("overlays", "topohub"),
        ("workloads", "generate quotes"),
        ("faults", "generate crash rate"),
        ("audits", "exactly_once"),
    ],
)
def test_list_says_what_there_is_a_line_each(group: str, name: str) -> None:
    result = cli("list", group)
    assert result.exit_code == 0
    assert len([line for line in result.stdout.splitlines() if line.startswith(f"{name} ")]) == 1
    rows = json.loads(cli("list", group, "--json").stdout)
    assert {row["group"] for row in rows} == {group}
    assert name in {row["name"] for row in rows}
    everything = cli("list").stdout
    assert f"{group}:\n" in everything
    assert f"  {name} " in everything


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rnu",), "did you mean 'run'?"),
        (("run",), "missing argument 'file'"),
        (("run", "s.yaml", "--stroe", "x"), "--store"),
        (("run", "s.yaml", "--engine", "sprak"), "did you mean 'spark'?"),
        (("run", "s.yaml", "--commit-every", "0"), "commit-every"),
        (("list", "protocls"), "did you mean 'protocols'?"),
        (("sql", "d"), "missing argument"),
        (("sql", "d", "select 1", "--format", "tabel"), "did you mean 'table'?"),
        (("sql", "d", "select 1", "--as-of-round", "x"), "as-of-round"),
        (("compare-node", "d", "--run", "0"), "missing option '--node'"),
        (("report", "d", "--rounds", "9:3"), "ends before it begins"),
        (("report", "d", "--rounds", "9"), "is not a range of rounds"),
        (("validate",), "missing argument 'file..."),
        (("--verison",), "--version"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_command_is_64_with_the_nearest_name(arguments: tuple[str, ...], words: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == 64
    assert result.stdout == ""
    assert words in result.stderr.lower()
    assert "Traceback" not in result.stderr


def test_the_doctor_says_what_is_there_and_tries_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {check["name"]: check for check in json.loads(cli("doctor", "--json").stdout)}
    assert list(found) == ["python", "engine local", "engine spark", "spark's jars", "memory", "disk", "self-test"]
    assert found["self-test"]["found"].startswith("single_crash on local: valid, in ")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr("pipelines.cli.listing._self_test", lambda _: listing.Check("self-test", True, "not made"))
    result = cli("doctor")
    assert result.exit_code == 0, "a run needs no Java"
    assert "!   engine spark  the engine 'spark' needs Java 17 to 21; /nowhere/bin/java is no Java" in result.stdout


def test_the_doctor_tells_that_the_jars_cannot_be_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for folder, is_well, found in (
        (tmp_path, True, "not cached: the first"),
        (tmp_path / "file", False, "not cached, and"),
    ):
        monkeypatch.setattr("pipelines.engines.jars.cache_folder", lambda one=folder: one / "jars")
        check = listing._jars()
        assert (check.is_well, check.found.startswith(found)) == (is_well, True)
        assert is_well or not check.is_needed, "a run on engine local needs no jars"


def test_the_doctor_does_not_need_sail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra spark only, the self-test runs on the engine that a run would choose."""
    monkeypatch.setattr(listing, "find_spec", lambda name: None if name == "pysail" else object())
    monkeypatch.setattr(listing, "_self_test", lambda asked: listing.Check("self-test", True, asked))
    result = cli("doctor")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert (
        "! engine local package pysail is not installed; run pip install 'roundtable-pubsub[local]' to run without Java"
        in lines
    )
    assert "ok self-test auto" in lines
    assert result.exit_code == 0


def test_runs_lists_no_folder_that_is_not_there(tmp_path: Path) -> None:
    assert cli("runs", tmp_path / "none").exit_code == 64
    (tmp_path / "empty").mkdir()
    assert json.loads(cli("runs", tmp_path, "--json").stdout) == []
    assert cli("runs", tmp_path, "--format", "csv").stdout == "store,scenario,state,runs,MB,parameters,settings\n"


@pytest.mark.parametrize(
    ("manifest", "state"), [("{", "damaged"), ("[]", "damaged"), ('{"store_format": 1}', "of another version")]
)
def test_runs_tells_stores_that_cannot_be_read(tmp_path: Path, manifest: str, state: str) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "experiment.json").write_text(manifest)
    [row] = json.loads(cli("runs", tmp_path, "--json").stdout)
    assert (row["state"], row["runs"]) == (state, None)


def test_validate_counts_runs_and_writes_nothing(example: Path) -> None:
    result = cli("validate", example)
    told = f"{example}: ok (6 runs)\n{example}: {SEEDS}\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, told, "")
    assert list(Path.cwd().iterdir()) == []


def test_validate_shows_the_errors_of_all_files(example: Path) -> None:
    wrong = example.with_name("wrong.yaml")
    wrong.write_text(EXAMPLE.replace("topic: a, until", "tpoic: a, until").replace("rounds: 20", "rounds: 0"))
    result = cli("validate", wrong, example.with_name("none.yaml"), example)
    assert result.exit_code == 64
    assert result.stdout.splitlines() == [f"{example}: ok (6 runs)", f"{example}: {SEEDS}"]
    places = [line.split(": ")[0] for line in result.stderr.splitlines()]
    assert places == [f"{wrong}:5:37", f"{wrong}:7:16", str(example.with_name("none.yaml"))]


def test_a_missing_file_is_told_with_the_values_that_ask_for_it(example: Path) -> None:
    (example.parent / "a.csv").write_text("src,dst\nA,B\nB,C\nC,D\nC,E\n")
    text = EXAMPLE.replace("links: [[A, B], [B, C], [C, D], [C, E]]", "file: {path: a.csv}")
    example.write_text(text.replace("grid: {protocol.delta: [0, 2]}", "grid: {overlay.file.path: [a.csv, b.csv]}"))
    result = cli("validate", example)
    assert result.exit_code == 64
    [line] = result.stderr.splitlines()
    assert line.startswith(f"{example}:3:")
    assert "with overlay.file.path = b.csv" in line


@pytest.mark.parametrize(
    "grid", ["protocol.name: [delta, forwarding]", "protocol: [{name: delta}, {name: forwarding}]"]
)
def test_a_grid_may_have_several_protocols(example: Path, grid: str) -> None:
    example.write_text(EXAMPLE.replace("protocol.delta: [0, 2]", grid))
    assert cli("validate", example).stdout.splitlines() == [f"{example}: ok (6 runs)", f"{example}: {SEEDS}"]
    planned = cli("plan", example).stdout
    assert "delta" in planned
    assert "forwarding" in planned


def test_a_grid_of_one_value_is_no_variation(example: Path) -> None:
    example.write_text(EXAMPLE.replace("protocol.delta: [0, 2]", "time.rounds: [30]"))
    assert cli("validate", example).stdout.splitlines() == [f"{example}: ok (3 runs)", f"{example}: {SEEDS}"]


def test_the_first_command_of_the_readme_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/none")
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "ROUNDTABLE_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    assert "engine    local" in cli("plan", "quickstart").stdout
    scenarios = (installed_data() / "conf" / "scenarios").rglob("*.yaml")
    assert {load_scenario(path).scenario.engine for path in scenarios} == {"auto", "local"}


def test_calls_that_only_the_grid_generates_differ_between_seeds_too(tmp_path: Path) -> None:
    """The calls of all seeds would otherwise be expected in the same rounds."""
    calls = "{generate: {kind: topics, topics: 1, nodes: 1, rate: 0.01, rounds: [0, 4000]}}"
    head = "name: drawn\nprotocol: {name: flooding}\ntime: {rounds: 5000}\n"
    head += "overlay: {generate: {kind: line, nodes: 3}}\n"
    takes = []
    for name, parts in {
        "scenario": f"runs: {{seeds: {{from: 0, count: 10}}}}\nworkload: {{publications: {calls}}}\n",
        "grid": f"runs:\n  seeds: {{from: 0, count: 10}}\n  grid:\n    workload.publications:\n      - {calls}\n",
    }.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(head + parts)
        takes += [line for line in cli("plan", file).stdout.splitlines() if line.startswith("takes")]
    assert takes[0] == takes[1]
    assert len(takes) == 2


def test_an_overlay_of_one_node_is_planned(example: Path) -> None:
    example.write_text("name: one\nprotocol: {name: flooding}\noverlay: {generate: {kind: line, nodes: 1}}\n")
    rows = [line.split() for line in cli("plan", example).stdout.splitlines()]
    assert ["1", "0", "0", "0", "0", "0", "0", "0", "0", "0"] in rows


def test_plan_says_what_would_run_and_writes_nothing(example: Path) -> None:
    result = cli("plan", example)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "scenario  example: 6 runs = 2 of the grid x 3 seeds"
    assert "engine    local" in result.stdout
    rows = [line.split() for line in lines]
    # nodes, links, diameter, subscribe, unsubscribe, publish, join, crash, fault; four calls over four links
    assert ["0", "5", "4", "3", "2", "1", "1", "0", "0", "0", "16"] in rows
    assert ["2", "5", "4", "3", "2", "1", "1", "0", "0", "0", "16"] in rows
    assert "at most 96 of each kind in all runs" in result.stdout
    assert "PUB" in result.stdout
    # Calls up to round 9, and the diameter of 4 links four times.
    assert "takes     about 20 rounds, less than a minute, 0.6 GiB of memory, 1 MB on disk" in result.stdout
    assert "spark.master" not in result.stdout
    program, dataflow = (
        cli("plan", example, "--engine", "spark", "--form", form).stdout for form in ("program", "dataflow")
    )
    assert "takes     about 20 rounds, less than a minute" in program
    assert "takes     about 20 rounds, 1 minute, " in dataflow
    rows = [line.split() for line in cli("plan", example, "-v").stdout.splitlines()]
    assert {row[0] for row in rows if row} >= {"delivery", "round_commit", "state_routing_entry"}
    assert list(Path.cwd().iterdir()) == []


def test_plan_charges_no_rounds_without_an_event(tmp_path: Path) -> None:
    """A call keeps the three links busy for 12 rounds after its round, the last two calls together for 17."""
    parts = {
        "name": "sparse", "protocol": {"name": "delta"}, "overlay": {"links": [["A", "B"], ["B", "C"], ["C", "D"]]},
        "workload": {
            "subscriptions": [{"at": "D", "topic": "a"}],
            "publications": [{"at": "A", "round": at, "topic": "a"} for at in (100, 190_000, 190_005)],
        },
        "faults": [{"kind": "crash", "node": "C", "round": 199_995}],
        "time": {"rounds": 200_000}, "runs": {"seeds": {"count": 10}},
    }  # fmt: skip
    file = tmp_path / "sparse.yaml"
    file.write_text(json.dumps(parts), "utf-8")
    costs = json.loads(cli("plan", file, "--json").stdout)["costs"]
    assert costs["n_rounds"] == 13 + 13 + 18 + 6
    assert costs["minutes"] < 1
    parts["faults"] = [{"generate": {"kind": "crash", "count": 1, "rounds": [199_995, 199_996]}}]
    file.write_text(json.dumps(parts), "utf-8")
    drawn = json.loads(cli("plan", file, "--json").stdout)["costs"]["n_rounds"]
    assert drawn % 10 == 0
    assert 490 <= drawn <= 500
    assert json.loads(cli("plan", file, "--json", "--set", "protocol={name: gossipsub}").stdout)["costs"][
        "n_rounds"
    ] == (200_000)


def test_what_became_of_an_overlay_file_is_told(example: Path) -> None:
    example.with_name("net.csv").write_text("src,dst\nA,B\nB,C\nC,A\nC,D\nC,E\nX,Y\n")
    example.write_text(EXAMPLE.replace("{links: [[A, B], [B, C], [C, D], [C, E]]}", "{file: {path: net.csv}}"))
    told = [
        "file.latency names no column, so every link takes 1 round",
        "2 of 7 nodes are left out, which the largest component does not reach: X, Y",
        "1 of 5 links are left out to form a tree; keys tree and root select the tree",
    ]
    validated = cli("validate", example)
    assert validated.exit_code == 0
    *notes, seeds = validated.stdout.splitlines()[1:]
    assert notes == [f"{example}: overlay: {note}" for note in told]
    assert seeds == f"{example}: {SEEDS}"
    planned = cli("plan", example)
    assert [line for line in planned.stdout.splitlines() if line.startswith("overlay")] == [
        f"overlay   {note}" for note in told
    ]


def test_what_became_of_an_overlay_is_told_of_the_values_that_it_concerns(example: Path) -> None:
    example.with_name("net.csv").write_text("src,dst,ms\nA,B,1\nB,C,1\nC,A,1\nC,D,1\nC,E,1\n")
    tree = "{links: [[A, B], [B, C], [C, D], [C, E]]}"
    grid = f"{{overlay: [{tree}, {{file: {{path: net.csv, latency: ms}}}}]}}"
    example.write_text(EXAMPLE.replace("{protocol.delta: [0, 2]}", grid))
    _, note, rounding, _ = cli("validate", example).stdout.splitlines()
    assert "overlay: with overlay = net.csv ms: " in note
    assert note.endswith("1 of 5 links are left out to form a tree; keys tree and root select the tree")
    assert "with overlay = net.csv ms: rounding up to rounds of 10 ms makes 20 of 20 paths more than 10%" in rounding


def test_plan_shows_the_settings_of_the_engine_asked_for(example: Path) -> None:
    spark = ("-v", "--engine", "spark", "--set", "protocol.name=forwarding", "--set", "runs.grid={}")
    result = cli("plan", example, *spark)
    assert f"engine    spark: pyspark {version('pyspark')} in a JVM, " in result.stdout
    assert "\n  spark.app.name=roundtable\n" in result.stdout
    assert "protocol  forwarding" in result.stdout
    assert "\n  spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 " in result.stdout  # that of a small job


def test_a_store_that_is_none_is_told_without_an_engine(example: Path) -> None:
    empty = example.parent / "empty"
    empty.mkdir()
    for folder, words in (
        (example.parent / "emtpy", "did you mean 'empty'?"),
        (empty, "no table round_commit"),
        (example, "is a file"),
    ):
        for arguments in (("audit", folder), ("sql", folder, "select 1"), ("resume", folder)):
            result = cli(*arguments)
            assert result.exit_code == 64
            assert result.stdout == ""
            assert result.stderr.startswith("error: ")
            assert words in result.stderr


def test_a_new_store_has_to_be_new(example: Path) -> None:
    full = example.parent / "full"
    full.mkdir()
    (full / "thesis.txt").write_text("mine")
    link = example.parent / "dangling"
    link.symlink_to("nowhere")
    for folder, words in ((full, "contains thesis.txt; name a new folder"), (example, "is a file"), (link, "dangling")):
        result = cli("run", example, "--store", folder)
        assert result.exit_code == 64
        assert words in result.stderr
    assert (full / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "command",
    [
        ("run", "{}"), ("validate", "{}"), ("runs", "{}"), ("list", "{}"), ("init", "{}"),
        ("run", "quickstart", "--engine", "{}"), ("run", "quickstart", "--set", "{}=1"),
        ("compare", "quickstart", "--want", "{}"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_long_value_is_shortened_in_an_error(command: tuple[str, ...], tmp_path: Path) -> None:
    result = cli(*(one.format("n" * 10_000) for one in command), env={"COLUMNS": "1000"})
    assert result.exit_code == 64
    assert 20 < len(result.stderr) < 1_500
    assert "store" not in result.stderr, "no store is concerned"


JAVA = """An error occurred while calling o1.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:359)
Caused by: java.io.IOException: error=2,
  no file
\tat java.base/java.lang.ProcessImpl.<init>(ProcessImpl.java:319)
\t... 27 more
"""
PYTHON = """An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "worker.py", line 20, in <module>
    check()
ValueError: wrong

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RoundtableError("it is wrong; mend it"), 64, "error: it is wrong; mend it\n"),
        (InternalError("a rule was broken"), 70, "internal error: InternalError: a rule was broken (set ROUND"),
        (ZeroDivisionError("first\nsecond"), 70, "internal error: ZeroDivisionError: first second (set ROUNDTABLE"),
        (RuntimeError(JAVA), 70, "internal error: RuntimeError: java.io.IOException: error=2, no file (set ROUND"),
        (RuntimeError(PYTHON), 70, "internal error: RuntimeError: ValueError: wrong (set ROUNDTABLE_DEBUG"),
        (RuntimeError("found at a.b(1)"), 70, "internal error: RuntimeError: found at a.b(1) (set ROUNDTABLE_DEBUG"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_end_has_its_code_and_one_line(
    error: BaseException, code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(commands, "print_groups", fail)
    monkeypatch.delenv("ROUNDTABLE_DEBUG", raising=False)
    result = cli("list")
    assert result.exit_code == code
    assert result.stderr.startswith(words)
    assert result.stderr.count("\n") == 1


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("why")

    monkeypatch.setattr(commands, "print_groups", fail)
    result = cli("list", env={"ROUNDTABLE_DEBUG": "1"})
    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("internal error: ZeroDivisionError: why\n")


def test_the_module_is_the_command_and_validates_without_pyspark(example: Path) -> None:
    text = (
        "import sys\nfrom pipelines.cli import main\n"
        f"sys.argv = ['roundtable', 'validate', {str(example)!r}]\n"
        "try:\n    main()\nfinally:\n    print('pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"{example}: ok (6 runs)\n{example}: {SEEDS}\nFalse\n",
        "",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", "validate", "none.yaml"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("none.yaml: the file does not exist")


def test_the_product_is_imported_by_its_name() -> None:
    roundtable = importlib.import_module("roundtable")
    assert roundtable.__all__ == pipelines.__all__
    assert all(getattr(roundtable, name) is getattr(pipelines, name) for name in pipelines.__all__)
    with pytest.raises(AttributeError, match="it has Comparison"):
        roundtable.rnu  # noqa: B018 - the look-up is the test
    built = tomllib.loads((Path(pipelines.__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    wheel = built["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["pipelines", "udfs", "roundtable"]
    assert all((Path(pipelines.__file__).parents[1] / name / "py.typed").is_file() for name in wheel["packages"])


@pytest.mark.parametrize("module", ["roundtable", "pipelines"])
def test_modules_answer_as_the_command(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"roundtable {version('roundtable-pubsub')}\n"


def test_static_analysers_know_the_public_names(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text("import roundtable as rt\nreveal_type(rt.run)\nreveal_type(rt.Result.verdict)\n")
    root = Path(pipelines.__file__).parents[1]
    # With the options of the project, so that the check of all types reads what this one keeps in the cache.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(tmp_path / "use.py")], capture_output=True, text=True, cwd=root
    )
    revealed = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(revealed) == 2
    assert "pipelines.result.Result" in revealed[0]
    assert not any('"Any"' in line for line in revealed)


def printed_by(text: str) -> str:
    """Returns the output of a Python program, which must succeed."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_is_cheap() -> None:
    text = (
        "import sys, pipelines as rt\nassert 'pyspark' not in sys.modules and 'pydantic' not in sys.modules\n"
        "assert {'run', 'open_store'} <= set(dir(rt))\nassert callable(rt.run)\n"
        "try:\n    rt.rnu\nexcept AttributeError as error:\n    print(error)\n"
    )
    assert printed_by(text) == "module 'pipelines' has no attribute 'rnu'\n"


def test_help_imports_neither_protocols_nor_libraries_of_data() -> None:
    """The imports of all protocols and of pandas take longer than everything else that help needs."""
    text = (
        "import sys, pipelines.cli.app\n"
        "unwanted = {'pandas', 'networkx', 'deltalake', 'pyspark', 'pydantic', 'pipelines.protocols'}\n"
        "print(*sorted({*sys.modules} & unwanted))"
    )
    assert printed_by(text) == "\n"


WITHOUT_ENGINE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pysail", "delta", "graphframes", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv[0] = "roundtable"
from pipelines.cli import main
main()
"""


def test_only_commands_that_play_need_an_engine(tmp_path: Path) -> None:
    def called(*arguments: str) -> subprocess.CompletedProcess[str]:
        script = [sys.executable, "-c", WITHOUT_ENGINE, *arguments]
        return subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    listed = called("list", "protocols")
    assert (listed.returncode, "gossipsub" in listed.stdout) == (0, True), listed.stderr
    assert called("init", "own.yaml").returncode == 0
    assert called("plan", "own.yaml", "--engine", "local").returncode == 0
    refused = called("run", "own.yaml", "--engine", "local")
    assert refused.returncode == 64
    assert refused.stderr.splitlines()[-1] == (
        "error: package pyspark is not installed; run pip install 'roundtable-pubsub[local]' "
        "(local needs Python only, spark a JDK, too)"
    )
