"""The suites: modules that are mutated, and the tests that must detect their mutants."""

from __future__ import annotations

from dataclasses import dataclass

from mutation.mutants import ROOT


@dataclass(frozen=True)
class Suite:
    """Modules, and the tests that run for each of their mutants.

    Attributes:
        name: The name of the suite in the table.
        folders: The folders of the modules.
        left_out: Modules that are not mutated: schemas, settings, and checks before a run.
        tests: Patterns of test files, or single tests; the tests that find the most mutants per second come first. If
            ``has_engine`` is false, tests that need an engine are skipped.
        has_engine: Whether the tests need an engine.
        patience: Wall seconds after which a single test counts as failed, because a mutant may never end.
    """

    name: str
    folders: tuple[str, ...]
    left_out: frozenset[str]
    tests: tuple[str, ...]
    has_engine: bool
    patience: int

    @property
    def modules(self) -> list[str]:
        """The paths of the modules, sorted."""
        found = sorted(path for folder in self.folders for path in (ROOT / folder).glob("*.py"))
        return [str(path.relative_to(ROOT)) for path in found if path.stem not in {"__init__", *self.left_out}]

    @property
    def present(self) -> list[str]:
        """The test files and single tests that exist, in the order of ``tests``."""
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
            "tests/properties/delta/test_crashes.py::test_connections_to_incarnations_that_are_over_are_reported",
            "tests/spec/delta/test_link_faults.py",
        ),
        has_engine=True, patience=180,
    ),
)  # fmt: skip


def suite_of(module: str) -> Suite:
    """Returns the suite that a module belongs to."""
    return next(suite for suite in SUITES if module in suite.modules)
