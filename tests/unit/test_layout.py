"""The layout: rooms from those that users touch down to what knows nobody; imports go down, and never in a circle."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
ROOMS = (
    "notebooks", "jobs", "__main__", "pipelines", "cli", "comparing", "api", "testing", "result", "report", "hunting",
    "rounds", "experiment", "inputs", "scenario",
    "why", "audits", "sql",
    "protocols", "contract", "store",
    "engines", "files", "tables", "errors", "udfs",
)  # fmt: skip
"""From the top down; `pipelines/README.md` says what each is for."""
MOST_FILES_AT_THE_ROOT = 8


@cache
def modules() -> dict[str, Path]:
    """Returns all modules by name."""
    files = [*ROOT.glob("pipelines/**/*.py"), *ROOT.glob("udfs/**/*.py")]
    named = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {name.removesuffix(".__init__"): file for name, file in named.items()}


def room(module: str) -> str:
    """Returns the room of a module: the folder, or the file where it lies at the root."""
    first, *rest = module.split(".")
    return rest[0] if first == "pipelines" and rest else first


def imported(name: str, file: Path) -> Iterator[str]:
    """Yields the project's modules that a module imports, at its top or later."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        for one in found:
            while one and one not in modules():
                one = one.rpartition(".")[0]
            if one and one != name:
                yield one


@cache
def imports() -> nx.DiGraph:
    """Returns the graph of imports between modules."""
    return nx.DiGraph([(name, other) for name, file in modules().items() for other in imported(name, file)])


def test_imports_never_go_in_a_circle() -> None:
    assert [sorted(circle) for circle in nx.strongly_connected_components(imports()) if len(circle) > 1] == []


def test_folders_import_each_other_never_in_a_circle() -> None:
    folders = nx.DiGraph()
    for name, other in imports().edges:
        here, there = (modules()[module].parent for module in (name, other))
        is_inside = here in there.parents or there in here.parents
        if here != there and not is_inside:
            folders.add_edge(here, there)
    assert [sorted(map(str, circle)) for circle in nx.strongly_connected_components(folders) if len(circle) > 1] == []


def test_imports_go_down() -> None:
    place = {name: number for number, name in enumerate(ROOMS)}
    up = [(one, other) for one, other in imports().edges if place[room(one)] > place[room(other)]]
    assert up == []


def test_every_room_is_in_use_and_named_in_the_map() -> None:
    told = (ROOT / "pipelines" / "README.md").read_text("utf-8")
    assert {room(name) for name in modules()} == {*ROOMS}
    folders = {path.name for path in (ROOT / "pipelines").iterdir() if (path / "__init__.py").exists()}
    assert {name for name in folders if f"`{name}/`" not in told} == set()


def test_few_files_lie_at_the_root() -> None:
    assert len([*(ROOT / "pipelines").glob("*.py")]) <= MOST_FILES_AT_THE_ROOT


def test_what_plays_and_keeps_runs_names_no_protocol() -> None:
    """Neither as a module nor in quotes; delta is the name of a format, too."""
    found = (path.name for path in (ROOT / "pipelines" / "protocols").iterdir() if (path / "__init__.py").exists())
    names = "|".join(sorted({*found} - {"delta"}))
    assert names.count("|") >= 4
    named = re.compile(rf"[\"'](?:{names})[\"']|(?:protocols|udfs)\.(?:{names})\b")
    below = ("engines", "rounds", "store", "experiment", "inputs", "contract", "audits", "why", "sql")
    files = [file for name, file in modules().items() if room(name) in below or name.startswith("udfs.nodes")]
    assert len(files) > 100
    assert [file for file in files if named.search(file.read_text("utf-8"))] == []


def test_a_scenario_is_read_without_an_engine() -> None:
    program = "import sys, pipelines.scenario.load, pipelines.contract.protocol; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_root_of_the_tests_has_what_they_share_and_their_map() -> None:
    assert {path.name for path in (ROOT / "tests").iterdir() if path.is_file()} == {"README.md", "conftest.py"}


def test_every_folder_of_tests_is_in_their_map() -> None:
    told = (ROOT / "tests" / "README.md").read_text("utf-8")
    folders = {file.relative_to(ROOT / "tests").parts[0] for file in (ROOT / "tests").glob("*/**/*.py")}
    assert {name for name in folders if f"`{name}/" not in told} == set()


def test_only_folders_of_tests_have_tests_and_no_test_imports_another() -> None:
    helpers = ("support", "oracles", "perf", "mutation")
    assert [path for name in helpers for path in (ROOT / "tests" / name).rglob("test_*.py")] == []
    found = {(file, name) for file in (ROOT / "tests").rglob("*.py") for name in _imported_names(file)}
    assert {(file, name) for file, name in found if re.search(r"\btest_|^tests\b|\bconftest\b", name)} == set()


def test_an_oracle_knows_nothing_of_what_is_compared_with_it() -> None:
    known = {name for file in (ROOT / "tests" / "oracles").rglob("*.py") for name in _imported_names(file)}
    own = {name for name in known if name.startswith(("pipelines", "udfs", "support"))}
    assert own <= {"pipelines.contract.run_inputs", "pipelines.scenario.load"}


def _imported_names(file: Path) -> set[str]:
    nodes = [*ast.walk(ast.parse(file.read_text("utf-8")))]
    modules = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return modules | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


def test_the_map_of_tests_names_what_there_is() -> None:
    told = (ROOT / "tests" / "README.md").read_text("utf-8").partition("## Which test")[2]
    named = [name for name in re.findall(r"`([\w/*]+(?:\.py|/))`", told) if not name.startswith("contract/")]
    assert len(named) > 30
    assert [name for name in named if not [*(ROOT / "tests").glob(name)]] == []
