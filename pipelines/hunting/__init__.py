"""Searches for fault schedules that break a guarantee.

Strategies aim faults at single messages, extend schedules that reached new states, enumerate all schedules of a window,
or draw random schedules.

- target: a message of an earlier run at which a schedule aims; form: the faults that a schedule applies to its target;
- aim: the description of a target and a form;
- feature: a kind of situation that a run reached (`coverage.features`); the features of all runs are the coverage;
- extension: a schedule that reached a new feature, with further faults;
- finding: a guarantee that a schedule breaks, with the cause; the corpus is the folder of the findings' scenarios;
- bound: the faults that a protocol tolerates; a violation beyond the bound is excused.
"""

from pipelines.hunting.findings import Hunt, HuntFinding, Standing
from pipelines.hunting.hunt import STRATEGIES, hunt

__all__ = ["STRATEGIES", "Hunt", "HuntFinding", "Standing", "hunt"]
