"""From a run that breaks a guarantee to the smallest scenario found that still breaks it."""

from pipelines.shrink.shrink import Playable, Shrunk, minimal, played, runnable, shrink

__all__ = ["Playable", "Shrunk", "minimal", "played", "runnable", "shrink"]
