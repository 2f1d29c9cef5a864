"""Searches for fault schedules that break a guarantee.

Strategies aim faults at single messages, extend schedules that reached new states, enumerate all schedules of a window,
or draw random schedules.
"""

from pipelines.hunting.findings import Hunt, HuntFinding, Standing
from pipelines.hunting.hunt import STRATEGIES, hunt

__all__ = ["STRATEGIES", "Hunt", "HuntFinding", "Standing", "hunt"]
