"""Searches fault schedules that break a guarantee: aimed at the messages of a run, guided by coverage, or drawn."""

from pipelines.hunting.hunt import Finding, Hunt, hunt

__all__ = ["Finding", "Hunt", "hunt"]
