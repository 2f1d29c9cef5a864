"""Searches for fault schedules that break a guarantee.

A strategy creates the schedules: it targets single messages, adds faults to schedules that reached new features,
enumerates all schedules of crashes in a window of rounds, or chooses faults at random.

- target: a message of an earlier run; a schedule injects faults in the rounds around the target, or into the target;
- form: a type of fault or faults, relative to a target, e.g. "receiver crashes then"; aim: a target and a form;
- feature: a type of situation that a run reached; `coverage.features` lists the types; the coverage is the set of
  features of all runs;
- extension: a copy of a schedule that reached a new feature, to which one more aim is added;
- finding: a guarantee that a schedule breaks, with the cause; the corpus is the folder of the findings' scenarios;
- bound: the faults that a protocol tolerates; a violation beyond the bound is excused.
"""

from pipelines.hunting.findings import Hunt, HuntFinding, Standing
from pipelines.hunting.hunt import STRATEGIES, hunt

__all__ = ["STRATEGIES", "Hunt", "HuntFinding", "Standing", "hunt"]
