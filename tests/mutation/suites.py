"""Which modules are mutated, and which tests have to find their mutants."""

from __future__ import annotations

from dataclasses import dataclass

from mutation.mutants import ROOT


@dataclass(frozen=True)
class Suite:
    """Modules with the tests that are run for each of their mutants, those first that find most for their time.

    Attributes:
        name: What it is called in the table.
        folders: Where its modules are.
        left_out: Modules that are not mutated: schemas, settings and what is checked before a run.
        tests: Files, by patterns, or tests; of files without an engine those that need one are left out.
        has_engine: Whether the tests need an engine.
        patience: Seconds by the clock after which a single test has failed: mutants may not come to an end.
    """

    name: str
    folders: tuple[str, ...]
    left_out: frozenset[str]
    tests: tuple[str, ...]
    has_engine: bool
    patience: int

    @property
    def modules(self) -> list[str]:
        """Returns the modules, by name."""
        found = sorted(path for folder in self.folders for path in (ROOT / folder).glob("*.py"))
        return [str(path.relative_to(ROOT)) for path in found if path.stem not in {"__init__", *self.left_out}]

    @property
    def present(self) -> list[str]:
        """Returns the tests that there are, one by one."""
        found: list[str] = []
        for test in self.tests:
            file, of, name = test.partition("::")
            found += [f"{path.relative_to(ROOT)}{of}{name}" for path in sorted(ROOT.glob(file))]
        return found


SUITES = (
    Suite(
        "udfs", ("udfs/ginger",), frozenset(),
        (
            "tests/spec/ginger/test_lock_queue.py", "tests/spec/ginger/test_bank.py",
            "tests/spec/ginger/test_b[ou]*.py", "tests/spec/ginger/test_[cemrs]*.py",
            "tests/spec/ginger/test_t[or]*.py",
            "tests/properties/ginger/test_joins.py", "tests/properties/ginger/test_crashes.py",
        ),
        has_engine=False, patience=30,
    ),
    Suite(
        "ginger", ("pipelines/protocols/ginger",), frozenset({"check", "waits"}),
        (
            "tests/store/test_bound_ginger.py", "tests/spec/ginger/test_annexes.py",
            "tests/properties/ginger/test_joins.py", "tests/store/test_audits_ginger.py",
        ),
        has_engine=True, patience=180,
    ),
    Suite(
        "delta", tuple(f"pipelines/protocols/delta{folder}" for folder in ("", "/phases", "/steps")),
        frozenset({"bound", "messages", "tables"}),
        (
            "tests/spec/delta/test_steps_*.py", "tests/spec/delta/test_work.py", "tests/spec/delta/test_phase_*.py",
            "tests/spec/delta/test_table_1.py",
            "tests/spec/delta/test_duplicates.py::test_every_message_arrives_twice[0]",
            "tests/spec/delta/test_recovery_order.py", "tests/spec/delta/test_joins_crashes.py",
            "tests/properties/delta/test_joins.py",
            "tests/properties/delta/test_aimed.py::test_connections_to_incarnations_that_are_over_are_reported",
            "tests/spec/delta/test_link_faults.py",
        ),
        has_engine=True, patience=180,
    ),
)  # fmt: skip


def suite_of(module: str) -> Suite:
    """Returns the suite that a module belongs to."""
    return next(suite for suite in SUITES if module in suite.modules)
