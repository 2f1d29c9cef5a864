"""The notebooks run from start to end, in the order of the bundle's jobs, and their tables can be published."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.ipynb import converted, notebooks

from pipelines.engines.session import Session
from pipelines.notebooks.parameters import NotebookParameters, read_parameters

PROJECT = Path(__file__).parents[2]
NOTEBOOKS = PROJECT / "pipelines" / "notebooks"


class Widgets:
    """Parameters as Databricks gives them to a notebook."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given
        self.known: set[str] = set()

    def text(self, name: str, default: str) -> None:
        self.given.setdefault(name, default)
        self.known.add(name)

    def get(self, name: str) -> str:
        return self.given[name]


class Utilities:
    """What a notebook finds as ``dbutils``."""

    def __init__(self, given: dict[str, str]) -> None:
        self.widgets = Widgets(given)


def run(name: str, session: Session, **given: str) -> dict[str, Any]:
    """Runs a notebook; returns its variables."""
    text = (NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8")
    assert text.startswith("# Databricks notebook source\n")
    utilities = Utilities(given)
    variables: dict[str, Any] = {"spark": session.spark, "dbutils": utilities}
    session.activate()
    exec(compile(text, name, "exec"), variables)  # noqa: S102 - as Databricks does
    assert given.keys() == utilities.widgets.known
    return variables


@pytest.fixture
def schema(sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A schema whose tables are in the working directory."""
    monkeypatch.chdir(tmp_path)
    sail.activate()
    sail.spark.sql(f"create schema lab location '{tmp_path / 'lab'}'")
    return "lab"


def test_first_run_and_its_history(
    sail: Session, tmp_path: Path, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run("first_run", sail, store=str(tmp_path / "store"), schema=schema)
    assert first["result"].verdict == "valid"
    shown = capsys.readouterr().out
    assert "delivered: to S1 in round" in shown
    assert sail.spark.table(f"{schema}.message").count() == first["result"].table("message").count() > 0
    assert [row.verdict for row in sail.spark.table(f"{schema}.result").collect()] == ["valid"]
    assert sail.spark.table(f"{schema}.result_summary").where("measure = 'delivery_ratio'").collect()[0].mean == 1
    assert "PUB" in shown
    assert shown.count("n_delivered") == 2
    sail.spark.sql(f"drop schema {schema} cascade")


def test_delta_study(sail: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = run("delta_study", sail, store=str(tmp_path / "study"), schema="", seeds="1", batch_runs="")["result"]
    assert study.verdict == "valid"
    rows = study.sql(
        "select protocol_delta, faults_0_generate_count as n, delivery_ratio, n_crashes from result"
    ).collect()
    assert {(row.protocol_delta, row.n) for row in rows} == {(delta, n) for delta in range(3) for n in range(3)}
    assert all(row.n_crashes == row.n for row in rows)
    assert all(row.delivery_ratio == 1 for row in rows if row.n <= row.protocol_delta)
    assert "messages_per_delivery" in capsys.readouterr().out
    again = run("delta_study", sail, store=str(tmp_path / "study"), schema="", seeds="1", batch_runs="")["result"]
    assert again.summary().equals(study.summary())
    assert f"opened: the store {tmp_path / 'study'}" in capsys.readouterr().out
    ends = study.sql("select ci_low, ci_high from result_summary where measure like '%ratio'").collect()
    assert all(row.ci_low is None or 0 <= row.ci_low <= row.ci_high <= 1 for row in ends)


def test_notebooks_are_scripts_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    first = {"__name__": "__main__", "__file__": str(NOTEBOOKS / "first_run.py")}
    defaults = {"store": "runs/first_run", "schema": ""}
    assert read_parameters(
        first, defaults, ["--store", "x", "--engine", "local", "--set", "protocol.delta=2"]
    ) == NotebookParameters({"store": "x", "schema": ""}, ["protocol.delta=2"], engine="local")
    assert read_parameters({**first, "get_ipython": None}, defaults) == NotebookParameters(defaults)
    with pytest.raises(SystemExit, match="0"):
        read_parameters(first, defaults, ["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "python -m pipelines.notebooks.first_run [-h] [--store X] [--schema X]" in shown
    assert "A first run: A broker crashes in the middle of a small overlay and recovers" in shown


def test_a_notebook_names_the_extra_that_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needing = [path for path in notebooks() if "import alt" in path.read_text("utf-8")]
    assert len(needing) > 3
    for path in needing:
        with pytest.raises(SystemExit, match="0"):
            read_parameters({"__name__": "__main__", "__file__": str(path)}, {}, ["--help"])
        assert "Needs the extra report (Altair)." in " ".join(capsys.readouterr().out.split())
    monkeypatch.delitem(sys.modules, "pipelines.notebooks.study", raising=False)
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match=r"pip install 'roundtable-pubsub\[report\]'"):
        importlib.import_module("pipelines.notebooks.study")


def test_a_script_starts_an_engine_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipelines.notebooks.first_run", "--engine", "local", "--store", "here"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "valid"), done.stderr


def test_the_notebooks_for_jupyter_are_those_for_databricks() -> None:
    for path in notebooks():
        made = path.with_suffix(".ipynb").read_text("utf-8")
        assert made == converted(path), "PYTHONPATH=tests python -m support.ipynb writes it"
        assert "dbutils" not in made
    assert len(notebooks()) == len(list(NOTEBOOKS.glob("*.ipynb"))) > 6


def test_the_bundle_names_notebooks_commands_and_their_parameters() -> None:
    bundle = yaml.safe_load((PROJECT / "databricks.yml").read_text(encoding="utf-8"))
    known = set(bundle["variables"])
    assert bundle["resources"]["jobs"].keys() == {"first_run", "delta_study", "sweep"}
    scripts = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for job in bundle["resources"]["jobs"].values():
        environments = {environment["environment_key"] for environment in job["environments"]}
        for task in job["tasks"]:
            assert set(re.findall(r"\$\{var\.(\w+)\}", str(task))) <= known
            assert task["environment_key"] in environments
            if "python_wheel_task" in task:
                assert task["python_wheel_task"]["entry_point"] in scripts
                continue
            notebook = PROJECT / task["notebook_task"]["notebook_path"]
            text = notebook.read_text(encoding="utf-8")
            declared = re.search(r"^PARAMETERS = (\{.*\})$", text, re.MULTILINE)
            assert declared is not None
            assert task["notebook_task"]["base_parameters"].keys() <= yaml.safe_load(declared[1]).keys()
