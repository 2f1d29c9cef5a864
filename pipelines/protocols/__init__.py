"""The protocols, by name: the project's own, and those that installed packages bring.

A package brings protocols with entry points of the group ``roundtable.protocols``, each a `ProtocolSpec`. The engine
looks protocols up here and knows none of them otherwise.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points, version
from typing import TYPE_CHECKING

from pipelines.contract.forms import Form
from pipelines.contract.spec import ProtocolSpec
from pipelines.errors import ProtocolError
from pipelines.protocols.delta import SPEC as _DELTA
from pipelines.protocols.epidemic import SPEC as _EPIDEMIC
from pipelines.protocols.flooding import SPEC as _FLOODING
from pipelines.protocols.forwarding import SPEC as _FORWARDING
from pipelines.protocols.ginger import SPEC as _GINGER
from pipelines.protocols.gossipsub import SPEC as _GOSSIPSUB
from pipelines.protocols.repository import SPEC as _REPOSITORY
from pipelines.protocols.skipring import SPEC as _SKIPRING

if TYPE_CHECKING:
    from pipelines.contract.round import Protocol

GROUP = "roundtable.protocols"
OWN_PACKAGE = "roundtable-pubsub"
PROTOCOLS: dict[str, ProtocolSpec] = {
    spec.name: spec for spec in (_DELTA, _FORWARDING, _EPIDEMIC, _GINGER, _SKIPRING, _REPOSITORY, _FLOODING, _GOSSIPSUB)
}
PACKAGES: dict[str, str] = dict.fromkeys(PROTOCOLS, OWN_PACKAGE)
"""The package that brings each protocol."""
BROKEN: dict[str, str] = {}
"""Entry points that bring no protocol, with the reason."""
_checked: dict[tuple[str, Form], tuple[ProtocolSpec, Protocol]] = {}
"""What was found to meet the contract: a check parses every statement of a protocol, and a question asks often."""


def origin(name: str) -> str:
    """Returns the package that brings a protocol, with its version."""
    return f"{PACKAGES[name]} {version(PACKAGES[name])}"


def protocol_module(name: str, form: Form | None = None) -> Protocol:
    """Loads a protocol's implementation, and PySpark with it; the first time it is checked against the contract.

    Args:
        name: The protocol.
        form: The form; None: the program, or the dataflow steps of a protocol without a program.

    Raises:
        ProtocolError: No package brings it, it cannot be imported, or it breaks the contract.
    """
    from pipelines.contract.check import check_protocol  # loads PySpark
    from pipelines.contract.nodes import NodeProtocol

    if name not in PROTOCOLS:
        cure = "install the package that brings it (experiment.json of the store names it)"
        raise ProtocolError(name, [f"no installed package brings it; {cure}; there are {', '.join(PROTOCOLS)}"])
    spec = PROTOCOLS[name]
    taken = form or spec.forms[0]
    module = spec.module(taken)
    if module is None:
        raise ProtocolError(name, [f"it has no form {taken}; it has {' and '.join(spec.forms)}"])
    try:
        found = getattr(importlib.import_module(module), "PROTOCOL", None)
    except ImportError as error:
        raise ProtocolError(name, [f"its module {module} cannot be imported: {error}"]) from error
    key = name, taken
    if key in _checked and _checked[key][0] is spec and _checked[key][1] is found:
        return _checked[key][1]
    protocol = check_protocol(name, found)
    if isinstance(protocol, NodeProtocol) != (taken == "program"):
        told = f"its spec names {module} as its {'program' if taken == 'program' else 'steps'}"
        allowed = "allowed: a NodeProtocol as program, another Protocol as steps"
        raise ProtocolError(name, [f"{told}, and PROTOCOL is a {type(protocol).__name__}; {allowed}"])
    _check_classes(spec, protocol)
    _checked[key] = spec, protocol
    return protocol


def _check_classes(spec: ProtocolSpec, protocol: Protocol) -> None:
    classed = [*spec.application, *spec.acknowledgement, *spec.recovery]
    unknown = sorted({*classed} - {*protocol.kinds})
    if unknown or len({*classed}) < len(classed):
        wrong = f"{unknown[0]!r} is none of its kinds" if unknown else "a kind stands in two of them"
        allowed = "allowed: each of PROTOCOL.kinds in one of application, acknowledgement and recovery, or in none"
        raise ProtocolError(spec.name, [f"{wrong}; {allowed}"])


def _take(entry: EntryPoint) -> None:
    package = entry.dist.name if entry.dist is not None else "?"
    try:
        spec = entry.load()
    except Exception as error:  # whatever a package does when it is imported, the others are there all the same
        BROKEN[entry.name] = f"package {package}: {entry.value} cannot be loaded ({type(error).__name__}: {error})"
        return
    if not isinstance(spec, ProtocolSpec):
        BROKEN[entry.name] = f"package {package}: {entry.value} is no ProtocolSpec"
    elif spec.name in PROTOCOLS:
        taken = PACKAGES[spec.name]
        BROKEN[entry.name] = f"package {package}: a protocol called {spec.name} is there already, from {taken}"
    else:
        PROTOCOLS[spec.name], PACKAGES[spec.name] = spec, package


for _entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.dist.name if entry.dist else "", entry.name)):
    _take(_entry)
