"""The protocols, by name. The engine looks them up here and knows none of them otherwise."""

from __future__ import annotations

from pipelines.protocols.base import ProtocolSpec
from pipelines.protocols.delta import SPEC as _DELTA
from pipelines.protocols.epidemic import SPEC as _EPIDEMIC
from pipelines.protocols.forwarding import SPEC as _FORWARDING
from pipelines.protocols.ginger import SPEC as _GINGER

PROTOCOLS: dict[str, ProtocolSpec] = {spec.name: spec for spec in (_DELTA, _FORWARDING, _EPIDEMIC, _GINGER)}
