"""The guarantees of protocol ``ginger`` beside the general ones."""

from __future__ import annotations

AUDITS = ()
