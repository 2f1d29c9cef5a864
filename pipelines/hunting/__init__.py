"""Searches for fault schedules that break a guarantee.

Schedules are aimed at messages, guided by coverage, enumerated, or random.
"""

from pipelines.hunting.findings import Hunt, HuntFinding, Standing
from pipelines.hunting.hunt import STRATEGIES, hunt

__all__ = ["STRATEGIES", "Hunt", "HuntFinding", "Standing", "hunt"]
