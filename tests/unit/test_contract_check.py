"""When a protocol is checked against the contract, what its declaration needs, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.contract import check
from pipelines.contract.round import DataflowForm
from pipelines.errors import ProtocolError
from pipelines.protocols import PROTOCOLS, protocol_form

FORWARDING = PROTOCOLS["forwarding"]
WITHOUT_PYSPARK = """
import sys

sys.modules["pyspark"] = sys.modules["py4j"] = None  # an import raises ImportError
from pipelines.protocols import BROKEN, PROTOCOLS
for name, one in PROTOCOLS.items():
    assert one.kinds and one.program.declared and one.settings().name == name, name
print(",".join(PROTOCOLS), BROKEN)
"""


def test_every_protocol_is_declared_without_pyspark() -> None:
    """Programs, audits, bounds and views included."""
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", WITHOUT_PYSPARK], cwd=root, capture_output=True, text=True, check=False)
    names = "delta,forwarding,epidemic,ginger,skipring,repository,flooding,gossipsub"
    assert (run.stdout.strip(), run.returncode) == (f"{names} {{}}", 0), run.stderr


def test_a_form_is_checked_once_though_every_question_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    first = protocol_form("forwarding", "dataflow")
    monkeypatch.setattr(check, "_statements", lambda _: asked.update(["statements"]) or ())
    assert protocol_form("forwarding", "dataflow") is first
    assert isinstance(first, DataflowForm)
    assert not asked


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"bound": "select from where"}, "bound is no SQL"),
        ({"waits": {"routing_entry": "select from where"}}, "waits of 'routing_entry' is no SQL"),
        ({"steps": "nowhere"}, "its module nowhere cannot be imported"),
        ({"steps": "udfs.forwarding"}, "STEPS is a NoneType; allowed: an object of a subclass of DataflowForm"),
        ({"steps": None}, "it has no form dataflow; it has program"),
    ],
)
def test_a_declaration_that_replaces_another_is_checked_again(
    changes: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol_form("forwarding", "dataflow")
    monkeypatch.setitem(PROTOCOLS, "forwarding", replace(FORWARDING, **changes))
    with pytest.raises(ProtocolError, match=told):
        protocol_form("forwarding", "dataflow")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"application": ("PUP",)}, "'PUP' is none of its kinds"),
        ({"recovery": ("PUB",)}, "a kind stands in two of them"),
    ],
)
def test_a_declaration_names_the_kinds_of_its_program(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ProtocolError, match=told):
        replace(FORWARDING, **changes)
