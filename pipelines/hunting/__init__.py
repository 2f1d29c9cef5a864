"""Searches for fault schedules that break a guarantee.

A hunt executes a scenario many times. Each run has the faults of the scenario and the faults of one schedule.

- target: a message of an earlier run. The faults of a schedule occur near its targets.
- form: one or more faults, defined relative to a target, for example "receiver crashes then".
- aim: a target and a form.
- feature: a combination of values in the history of a run, for example a message kind and the status of its receiver.
  `coverage.features` lists the combinations. The coverage of a hunt is the set of features of all its runs.
- extension: a new schedule that consists of a schedule that reached a new feature, and one more aim.
- finding: a guarantee that schedules break, with the cause. The corpus is a folder with one scenario for each finding.
- bound: the set of faults that a protocol tolerates. Faults beyond the bound excuse violations.
"""

from pipelines.hunting.findings import Hunt, HuntFinding
from pipelines.hunting.hunt import STRATEGIES, hunt

__all__ = ["STRATEGIES", "Hunt", "HuntFinding", "hunt"]
