"""The guide's package, taken from its page: installed, listed, run, swept, resumed, and tested by its own test."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.jvm import JVM

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import rows

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "pipelines" / "protocols" / "README.md"
MOST_LINES = 80
MOST_LINES_OF_FIRST = 20
MOST_LINES_OF_A_PROTOCOL = 55
"""Of a program and the least that declares it, docstrings included."""


def blocks(language: str) -> dict[str, str]:
    """Returns the page's files by the name in their first line."""
    found = re.findall(rf"^```{language}\n# (\S+)\n(.*?)^```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return dict(found)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package is installed, as pip leaves it."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in {**blocks("python"), **blocks("yaml")}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    [entry] = re.findall(r"^```toml\n(.*?)^```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    group = entry.replace('[project.entry-points."roundtable.protocols"]', "[roundtable.protocols]").replace('"', "")
    installed = folder / "flooding-1.2.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: flooding\nVersion: 1.2\n", "utf-8")
    (installed / "entry_points.txt").write_text(group, "utf-8")
    return folder


def call(site: Path | str, *arguments: str | Path, code: int = 0) -> str:
    """Runs Python where packages are installed; returns what it prints."""
    environment = os.environ | JVM | {"PYTHONPATH": os.pathsep.join(map(str, (site, ROOT, ROOT / "tests")))}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_files_are_short() -> None:
    files = {name: text.splitlines() for name, text in blocks("python").items()}
    assert {name: len(lines) for name, lines in files.items() if len(lines) >= MOST_LINES} == {}
    assert len([line for line in files["first.py"] if line]) <= MOST_LINES_OF_FIRST
    least = LEAST.format(summary="every publication goes everywhere").splitlines()
    assert len(files["flooding/program.py"]) + len(least) <= MOST_LINES_OF_A_PROTOCOL


def test_the_first_program_runs_without_an_engine(site: Path) -> None:
    alone = (
        "import sys; sys.modules['pyspark'] = sys.modules['pysail'] = None; import runpy; runpy.run_path(sys.argv[1])"
    )
    said = call(site, "-c", alone, site / "first.py").strip()
    assert said == "round 3: node 2 has it after 2 hops"
    assert f"`{said}`" in GUIDE.read_text("utf-8")


LEAST = '''"""What flooding declares."""

from flooding.program import Flood
from pipelines.contract.protocol import Protocol

FLOOD = Protocol(name="flood", summary="{summary}", program=Flood)
'''


def test_a_program_with_the_least_that_declares_it_is_a_protocol(site: Path) -> None:
    """Name, summary and program: settings have the name only, no form but the program."""
    least = LEAST.format(summary="floods")
    told = "print(FLOOD.kinds, FLOOD.forms, FLOOD.settings(), FLOOD.settings.__name__)"
    assert call(site, "-c", least + told).strip() == "('PUB',) ('program',) name='flood' FloodSettings"


LISTED = """
import json

from support.commands import cli

commands = ("list protocols", "list scenarios", "schema", "list audits")
done = [cli(*command.split()) for command in commands]
assert not any(one.exit_code for one in done)
print(json.dumps([one.stdout for one in done]))
"""


def test_the_package_is_listed_with_its_version_settings_and_scenarios(site: Path) -> None:
    protocols, scenarios, schema, audits = json.loads(call(site, "-c", LISTED))
    assert "every publication goes everywhere [flooding 1.2]" in protocols
    assert "\nring " in scenarios
    assert "FloodSettings" in json.loads(schema)["$defs"]
    assert "reached_everybody" in audits


@pytest.fixture(scope="module")
def stored(site: Path) -> Path:
    """A finished store of the guide's scenario, with 5 runs."""
    ring, store = site / "flooding" / "scenarios" / "ring.yaml", site / "stored"
    said = call(site, "-m", "pipelines", "run", ring, "--store", store, "--quiet", "--set", "runs.seeds={count: 5}")
    assert "valid: 5 runs, all guarantees hold" in said
    return store


def test_its_scenario_runs_and_its_store_goes_on_with_the_same_version_only(site: Path, stored: Path) -> None:
    ring, store = site / "flooding" / "scenarios" / "ring.yaml", stored
    assert json.loads((store / "experiment.json").read_text("utf-8"))["versions"]["flooding"] == "1.2"
    asked = "select count(1) as n from message where fate = 'duplicate'"
    assert json.loads(call(site, "-m", "pipelines", "sql", store, asked, "--format", "json")) in (
        [{"n": 10}],
        {"n": 10},
    )
    metadata = site / "flooding-1.2.dist-info" / "METADATA"
    text = metadata.read_text("utf-8")
    metadata.write_text(text.replace("1.2", "1.3"), "utf-8")
    check = f"from pathlib import Path as P; from pipelines.experiment.manifest import Manifest; r = P({str(store)!r})"
    told = call(site, "-c", f"{check}; Manifest.read(r).check_same(r, 'sail')", code=1)
    assert "it was started with flooding 1.2, this is 1.3" in told
    metadata.write_text(text, "utf-8")
    wrong = site / "wrong.yaml"
    wrong.write_text(ring.read_text("utf-8").replace("{name: flood}", "{name: flood, ttl: 3}"), "utf-8")
    assert f"{wrong}:3:" in call(site, "-m", "pipelines", "validate", wrong, code=64)


STOPPED = """
import pipelines as rt

class Stopped(Exception):
    pass

rounds = iter(range(1))

def stop(progress):
    if next(rounds, None) is None:
        raise Stopped

try:
    rt.run({ring!r}, store={store!r}, overrides=["runs.seeds={{count: 5}}"], commit_every=2, observe=stop)
except Stopped:
    print("stopped")
"""


def test_a_run_of_it_that_was_broken_off_is_resumed_to_the_same_rows(site: Path, stored: Path, sail: Session) -> None:
    ring, cut = (str(site / name) for name in ("flooding/scenarios/ring.yaml", "cut"))
    assert "stopped" in call(site, "-c", STOPPED.format(ring=ring, store=cut))
    assert "valid: 5 runs, all guarantees hold" in call(site, "-m", "pipelines", "resume", cut, "--quiet")
    for table in ("message", "delivery"):
        one, other = (rows(Store(Path(store), sail), table) for store in (stored, cut))
        assert one == other
        assert len(one) >= 10


def test_a_package_that_cannot_be_loaded_is_named_and_harms_nobody(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken-2.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n", "utf-8")
    (broken / "entry_points.txt").write_text("[roundtable.protocols]\nlost = nowhere:PROTOCOL\n", "utf-8")
    said = call(f"{site}{os.pathsep}{tmp_path}", "-m", "pipelines", "list", "protocols")
    assert "lost" in said
    assert "package broken: nowhere:PROTOCOL cannot be loaded" in said
    assert "forwarding" in said


def hunt_commands() -> list[list[str]]:
    """Returns the words of the commands of the guide's section on hunts."""
    section = GUIDE.read_text("utf-8").partition("## 6. A hunt")[2]
    [text] = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines()]


def ran(site: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command where the guide's package is installed."""
    environment = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pipelines", *words[1:]] if words[0] == "roundtable" else words
    return subprocess.run(command, env=environment, cwd=site, capture_output=True, text=True, check=False)


def test_a_planted_fault_is_found_by_the_guides_own_command(site: Path) -> None:
    planted, hunted = hunt_commands()
    program = site / "flooding" / "program.py"
    whole = program.read_text("utf-8")
    assert ran(site, planted).returncode == 0
    assert program.read_text("utf-8") != whole
    found = ran(site, hunted)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "reached_everybody" in found.stdout
    kept = next((site / "corpus").glob("reached_everybody_*.yaml")).read_text("utf-8")
    assert kept.startswith("# Breaks reached_everybody: ")
    program.write_text(whole, "utf-8")
    assert ran(site, ["roundtable", "hunt", "ring", "--runs", "0", "--corpus", "corpus"]).returncode == 0


def _own_test(site: Path, engine: str) -> str:
    fixture = blocks("python")["conftest.py"]
    assert '"local"' in fixture
    (site / "conftest.py").write_text(fixture.replace('"local"', f'"{engine}"'), "utf-8")
    return call(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", site, site / "test_flooding.py")


def test_its_own_test_passes_on_sail(site: Path) -> None:
    assert "3 passed" in _own_test(site, "local")


@pytest.mark.spark
def test_its_own_test_passes_on_spark(site: Path) -> None:
    assert "3 passed" in _own_test(site, "spark")
