"""Rules that code cites are in the README of its protocol; the index of algorithms names functions that there are."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
LETTERS = {"delta": "R", "epidemic": "E", "ginger": "G", "skipring": "K", "repository": "P", "flooding": "F",
           "gossipsub": "S"}  # fmt: skip
_LIST = r"\brules? ({0}\d+(?:(?:, | and | to ){0}\d+)*)"


def numbered(protocol: str) -> set[str]:
    """Returns the rules that a README defines."""
    text = (ROOT / "pipelines" / "protocols" / protocol / "README.md").read_text("utf-8")
    return set(re.findall(rf"^- \*\*({LETTERS[protocol]}\d+)\*\* ", text, re.MULTILINE))


def cited(protocol: str) -> set[str]:
    """Returns the rules that the code of a protocol cites."""
    folders = [ROOT / "pipelines" / "protocols" / protocol, ROOT / "udfs" / protocol]
    files = [*(file for folder in folders for file in folder.rglob("*.py")), ROOT / "udfs" / f"{protocol}.py"]
    text = "\n".join(file.read_text("utf-8") for file in files if file.exists())
    assert "settled rule" not in text
    lists = re.findall(_LIST.format(LETTERS[protocol]), text)
    return {rule for one in lists for rule in re.findall(rf"{LETTERS[protocol]}\d+", one)}


@pytest.mark.parametrize("protocol", LETTERS)
def test_every_rule_that_code_cites_is_in_the_readme(protocol: str) -> None:
    found = cited(protocol)
    assert found
    assert found - numbered(protocol) == set()


@pytest.mark.parametrize("protocol", LETTERS)
def test_rules_are_numbered_without_gaps(protocol: str) -> None:
    numbers = sorted(int(rule[1:]) for rule in numbered(protocol))
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_index_of_algorithms_names_functions_of_delta() -> None:
    text = (ROOT / "pipelines" / "protocols" / "delta" / "README.md").read_text("utf-8")
    rows = text.partition("## Algorithm by algorithm")[2]
    functions = re.findall(r"`(\w+)\.(\w+)`", rows)
    assert len(functions) > 40
    assert [f"{module}.{name}" for module, name in functions if not hasattr(_module_of_delta(module), name)] == []
    assert {f"Algorithm {number}" for number in range(1, 8)} <= set(re.findall(r"Algorithm \d", rows))


def _module_of_delta(name: str) -> ModuleType:
    """Returns a module of steps or of phases, by its last name."""
    (file,) = (ROOT / "pipelines" / "protocols" / "delta").glob(f"[ps]*s/{name}.py")
    return importlib.import_module(f"pipelines.protocols.delta.{file.parent.name}.{name}")
