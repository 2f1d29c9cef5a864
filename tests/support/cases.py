"""Cases of audits: changes of a run, and the violations that the audits must find in the changed run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import Change, added, run_all, run_configs
from support.copies import Copy, Plant

HUNTED = Path(__file__).parents[1] / "mutation" / "hunted"
LATER = 9_999
"""A round after the last event of the runs of all cases."""
_NUMBER = itertools.count(1_000_000)


@dataclass(frozen=True)
class Case:
    """Changes of tables of a run, and the violations that the audits find in the changed run.

    Attributes:
        run: The name of the run.
        found: The unexcused violations by guarantee, each as `lines` writes it.
        changes: The changes by table.
    """

    run: str
    found: Mapping[str, Sequence[str]]
    changes: Mapping[str, Change | Sequence[Change]]

    def plant(self, store: Store, runs: Iterable[str]) -> Plant:
        """Returns the changed run; ``runs`` are the names of the runs of the store, in their order."""
        return Plant(store, [*runs].index(self.run), **self.changes)


def case(run: str, found: Mapping[str, Sequence[str] | str], /, **changes: Change | Sequence[Change]) -> Case:
    """Returns a case; a string in ``found`` is a single violation."""
    return Case(run, {name: [of] if isinstance(of, str) else sorted(of) for name, of in found.items()}, changes)


def store_of(runs: Mapping[str, Mapping[str, Any]]) -> Callable[..., Store]:
    """Returns a fixture of a test module: the store of runs, which are scenarios by name."""

    @pytest.fixture(scope="module")
    def runs_of_module(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
        return run_all(run_configs([*runs.values()]), sail, tmp_path_factory.mktemp("runs"))

    return runs_of_module


def lines(copy: Copy) -> dict[str, list[str]]:
    """Returns the unexcused violations of a copy of one run, by guarantee.

    A violation is a line of round, node, publication and detail, for example ``72 F F1: does not answer node 2``. A
    hyphen stands for a missing value.
    """
    found: dict[str, list[str]] = {}
    for row in copy.violations:
        if not row["excused"]:
            name, source = copy.names[row["run_id"], row["node_id"]], copy.names.get((row["run_id"], row["source"]))
            number = "" if row["source_seq"] is None else row["source_seq"]
            about = "-" if source is None else f"{source}{number}" if len(source) == 1 else f"{source}:{number}"
            at = "-" if row["round"] is None else row["round"]
            found.setdefault(row["guarantee"], []).append(f"{at} {name} {about}: {row['detail']}")
    return {name: sorted(of) for name, of in found.items()}


def messages(ids: Callable[[str], int]) -> Callable[..., Change]:
    """Returns a function that returns the change that adds a message; ``ids`` maps names of nodes to ids.

    Publications have the name of the publisher and the number of the call, for example ``A2`` or ``C5:2``.
    """

    def message(
        kind: str, src: str, dst: str, sent: int, due: int | None = None, of: str | None = None,
        fate: str = "delivered", **body: Any,
    ) -> Change:  # fmt: skip
        name, number = (None, None) if of is None else of.split(":") if ":" in of else (of[0], of[1:])
        source, source_seq = name and ids(name), number and int(number)
        return added(
            run_id=0, message_id=next(_NUMBER), kind=kind, src=ids(src), dst=ids(dst), sent_round=sent,
            due_round=sent + 1 if due is None else due, fate=fate, source=source, source_seq=source_seq,
            body=json.dumps(body),
        )  # fmt: skip

    return message


def fault(kind: str, round_: int, node: int | None = None, until: int | None = None) -> list[Change]:
    """Returns the changes that add a fault of a node, and its end: a crash ends with a recovery."""
    end = "recovery" if kind == "crash" else f"{kind}_end"
    rows = [(round_, kind), *([] if until is None else [(until, end)])]
    return [added(run_id=0, round=at, kind=name, node_id=node) for at, name in rows]


def hunted(name: str, *faults: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """Returns a hunted scenario with additional faults and settings of its protocol."""
    parts = yaml.safe_load((HUNTED / f"{name}.yaml").read_text("utf-8"))
    return {**parts, "protocol": {**parts["protocol"], **settings}, "faults": [*parts.get("faults", ()), *faults]}


def sent(kind: str, src: int, dst: int, round_: int, words: str = "") -> str:
    """Returns the condition for the messages of a round whose body contains words."""
    about = f" and body like '%{words}%'" if words else ""
    return f"kind = '{kind}' and src = {src} and dst = {dst} and sent_round = {round_}{about}"
