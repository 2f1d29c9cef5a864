"""Searches fault schedules that break a guarantee: aimed at the messages of a run, guided by coverage, or drawn."""

from pipelines.hunting.findings import Hunt, HuntFinding, Standing
from pipelines.hunting.hunt import STRATEGIES, hunt

__all__ = ["STRATEGIES", "Hunt", "HuntFinding", "Standing", "hunt"]
