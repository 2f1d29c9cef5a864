"""Mutation testing: computes the share of small changes in `udfs/` and in the steps of protocols that tests detect.

    python tests/perf/mutants.py [--suite udfs] [--module udfs/ginger/buffer.py] [--sample 20 --seed 1]
        [--work mutants] [--again] [--list]

A mutant is a module with one change: of an operator, number, condition or loop in its Python, or of a comparison, null
test or join in its SQL. The tests of a mutant run in a separate process, which ends at the first failing test; the
files of the project are not changed. Outcomes are stored in the work folder, and mutants with an outcome are not tried
again, so the script may be interrupted. ``--again`` tries the survivors again, for example after tests were added.

Columns: mutants of the module; tried mutants (``--sample`` limits their number for each module); found mutants;
survivors; survivors that are equivalent to the program (`tests/mutation/equivalent.yaml`: no test can find them); found
mutants as a share of the tried mutants that are not equivalent; CPU seconds per mutant. The last lines estimate this
share for all mutants, with a 95 % interval if the tried mutants are a sample. ``--list`` prints the survivors. The
script needs the extra ``mutation``.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import yaml
from mutation.mutants import ROOT, Mutant, mutants
from mutation.suites import SUITES, Suite
from mutation.trial import Outcome, preload, tried
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

_COLUMNS = ("mutants", "tried", "found", "survived", "equivalent", "share", "seconds each")
_PATIENCE = 3
"""The tests of a mutant may take this many times the duration of the tests of the unchanged program."""


@dataclass(frozen=True)
class Tried:
    """The outcomes of the mutants of a module; ``equivalent`` contains keys of mutants that no test can find."""

    module: str
    n_mutants: int
    outcomes: dict[str, Outcome]
    tried: Sequence[Mutant]
    equivalent: frozenset[str]

    @property
    def survivors(self) -> list[Mutant]:
        """The tried mutants that no test found."""
        return [one for one in self.tried if not self.outcomes[one.key].is_found]

    @property
    def n_found(self) -> int:
        """The number of tried mutants that a test found."""
        return len(self.tried) - len(self.survivors)

    @property
    def n_judged(self) -> int:
        """The number of tried mutants that are not equivalent to the program."""
        return len(self.tried) - sum(one.key in self.equivalent for one in self.survivors)


def main() -> int:
    """Tries mutants, and prints the table of outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], action="append")
    parser.add_argument("--module", action="append", help="only this module, by its path; may be repeated")
    parser.add_argument("--sample", type=int, metavar="N", help="number of mutants of each module")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument(
        "--work", type=Path, default=Path("mutants"), help="folder in which outcomes are stored (default: mutants)"
    )
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument("--list", action="store_true", help="print the survivors with their changes")
    parser.add_argument("--report", action="store_true", help="print the stored outcomes; try no mutant")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    given.work.mkdir(parents=True, exist_ok=True)
    preload()
    done: list[Tried] = []
    for suite in SUITES:
        if not given.suite or suite.name in given.suite:
            done += _suite(suite, given)
    console = Console(width=140)
    console.print(_table(done))
    if given.list:
        for one in done:
            _print_survivors(one, console)
    return 0


def _suite(suite: Suite, given: argparse.Namespace) -> Iterator[Tried]:
    """Tries the mutants of a suite, module by module."""
    chosen = [module for module in suite.modules if not given.module or module in given.module]
    tests, timeout = suite.present, 0.0
    for module in chosen:
        everything = mutants(module)
        taken = _sampled(everything, given.sample, f"{given.seed} {module}")
        kept = given.work / f"{module.replace('/', '.')}.jsonl"
        known = _read(kept)
        open_ = [one for one in taken if one.key not in known or (given.again and not known[one.key].is_found)]
        for one in () if given.report else open_:
            if not timeout:
                start = time.monotonic()
                tried(None, suite, tests, math.inf)
                timeout = _PATIENCE * max(5.0, time.monotonic() - start)
            known[one.key] = tried(one, suite, tests, timeout)
            with kept.open("a") as file:
                file.write(json.dumps({"key": one.key, **asdict(known[one.key])}) + "\n")
        taken = [one for one in taken if one.key in known]
        result = Tried(module, len(everything), known, taken, _judged(taken))
        print(f"{module}: {result.n_found} of {len(taken)} found", file=sys.stderr, flush=True)
        yield result


def _sampled(everything: list[Mutant], size: int | None, seed: str) -> list[Mutant]:
    """Returns a random sample of the mutants of a module; a larger sample contains each smaller sample."""
    if size is None or size >= len(everything):
        return everything
    order = sorted(everything, key=lambda one: random.Random(f"{seed} {one.key}").random())
    return sorted(order[:size], key=lambda one: one.line)


def _read(kept: Path) -> dict[str, Outcome]:
    lines = kept.read_text().splitlines() if kept.exists() else []
    return {row.pop("key"): Outcome(**row) for row in map(json.loads, lines)}


def _judged(taken: Sequence[Mutant]) -> frozenset[str]:
    """Returns the keys of the mutants that `equivalent.yaml` lists, by module, original lines and changed lines."""
    known = yaml.safe_load((ROOT / "tests/mutation/equivalent.yaml").read_text()) or []
    changes = {(entry["module"], entry["is"], entry["was"]) for entry in known}
    return frozenset(one.key for one in taken if (one.module, *_change(one)) in changes)


def _change(one: Mutant) -> tuple[str, str]:
    lines = one.diff.splitlines()
    new, old = ([line[1:].strip() for line in lines if line.startswith(sign)] for sign in "+-")
    return "\n".join(new), "\n".join(old)


def _table(done: Sequence[Tried]) -> Table:
    table = Table("module", *_COLUMNS)
    for column in table.columns[1:]:
        column.justify = "right"
    for one in done:
        table.add_row(one.module, *_cells([one]))
    for suite in SUITES:
        of_suite = [one for one in done if one.module in suite.modules]
        if len(of_suite) > 1:
            table.add_section()
            table.add_row(f"{suite.name}, all modules", *_cells(of_suite))
    return table


def _cells(done: Sequence[Tried]) -> list[str]:
    n_tried, n_found = sum(len(one.tried) for one in done), sum(one.n_found for one in done)
    n_equivalent = n_tried - sum(one.n_judged for one in done)
    seconds = sum(one.outcomes[mutant.key].seconds for one in done for mutant in one.tried)
    share, half = _share(done)
    is_sample = n_tried < sum(one.n_mutants for one in done)
    counts = (sum(one.n_mutants for one in done), n_tried, n_found, n_tried - n_found, n_equivalent)
    text = f"{share:.1%} ± {half:.1%}" if is_sample else f"{share:.1%}"
    return [*map(str, counts), text if n_tried else "", f"{seconds / n_tried:.1f}" if n_tried else ""]


def _share(done: Sequence[Tried]) -> tuple[float, float]:
    """Estimates the share of found mutants among the mutants that are not equivalent, and half its 95 % interval.

    The sample is stratified by module. A module of which all mutants were tried does not contribute to the variance.
    """
    judged = [one for one in done if one.n_judged]
    weight = {one.module: one.n_mutants * one.n_judged / len(one.tried) for one in judged}
    total = sum(weight.values()) or 1.0
    share, variance = 0.0, 0.0
    for one in judged:
        part, found = weight[one.module] / total, one.n_found / one.n_judged
        # One found and one missed mutant are added, so that the variance is positive even if all mutants were found.
        cautious = (one.n_found + 1) / (one.n_judged + 2)
        untried = 1 - len(one.tried) / one.n_mutants
        share += part * found
        variance += part**2 * untried * cautious * (1 - cautious) / one.n_judged
    return share, 1.96 * math.sqrt(variance)


def _print_survivors(one: Tried, console: Console) -> None:
    for mutant in one.survivors:
        note = " (equivalent)" if mutant.key in one.equivalent else ""
        console.print(f"\n{mutant.module}:{mutant.line} {mutant.operator}{note}", style="bold", highlight=False)
        console.print(Syntax(mutant.diff, "diff", background_color="default"))


if __name__ == "__main__":
    sys.exit(main())
