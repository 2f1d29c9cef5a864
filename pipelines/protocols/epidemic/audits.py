"""The guarantees of protocol ``epidemic`` alone, beside the general ones."""

from __future__ import annotations

from pipelines.audits.base import Audit

AUDITS: tuple[Audit, ...] = ()
