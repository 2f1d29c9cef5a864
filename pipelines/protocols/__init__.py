"""The protocols, by name. The engine looks them up here and knows none of them otherwise."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pipelines.contract.spec import ProtocolSpec
from pipelines.protocols.delta import SPEC as _DELTA
from pipelines.protocols.epidemic import SPEC as _EPIDEMIC
from pipelines.protocols.forwarding import SPEC as _FORWARDING
from pipelines.protocols.ginger import SPEC as _GINGER

if TYPE_CHECKING:
    from pipelines.contract.round import Protocol

PROTOCOLS: dict[str, ProtocolSpec] = {spec.name: spec for spec in (_DELTA, _FORWARDING, _EPIDEMIC, _GINGER)}


def protocol_module(name: str) -> Protocol:
    """Loads a protocol's implementation, and PySpark with it."""
    module: Protocol = importlib.import_module(PROTOCOLS[name].module).PROTOCOL
    return module
