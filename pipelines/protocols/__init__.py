"""The registry of the protocols in this package and in installed packages.

An installed package registers a `Protocol` as an entry point of group ``roundtable.protocols``. The engine finds
protocols only through this registry.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points, version
from typing import TYPE_CHECKING

from pipelines.contract.forms import Form
from pipelines.contract.protocol import Protocol
from pipelines.errors import ProtocolError
from pipelines.protocols.delta import PROTOCOL as _DELTA
from pipelines.protocols.epidemic import PROTOCOL as _EPIDEMIC
from pipelines.protocols.flooding import PROTOCOL as _FLOODING
from pipelines.protocols.forwarding import PROTOCOL as _FORWARDING
from pipelines.protocols.ginger import PROTOCOL as _GINGER
from pipelines.protocols.gossipsub import PROTOCOL as _GOSSIPSUB
from pipelines.protocols.repository import PROTOCOL as _REPOSITORY
from pipelines.protocols.skipring import PROTOCOL as _SKIPRING

if TYPE_CHECKING:
    from pipelines.contract.nodes import ProgramForm
    from pipelines.contract.round import DataflowForm

GROUP = "roundtable.protocols"
OWN_PACKAGE = "roundtable-pubsub"
_OWN = (_DELTA, _FORWARDING, _EPIDEMIC, _GINGER, _SKIPRING, _REPOSITORY, _FLOODING, _GOSSIPSUB)
PROTOCOLS: dict[str, Protocol] = {one.name: one for one in _OWN}
PACKAGES: dict[str, str] = dict.fromkeys(PROTOCOLS, OWN_PACKAGE)
"""The distribution that provides each protocol, by the name of the protocol."""
BROKEN: dict[str, str] = {}
"""The reasons why entry points provide no protocol, by the name of the entry point."""
_loaded: dict[tuple[str, Form], tuple[Protocol, ProgramForm | DataflowForm]] = {}
"""The loaded forms (``program``, ``dataflow``) with their protocols.

A form from another package is checked once, when it is loaded: the check parses all SQL of the protocol. The forms of
this package are checked by tests only, because the import of the SQL parser alone takes 0.2 CPU seconds.
"""


def origin(name: str) -> str:
    """Returns the name and version of the package that provides a protocol."""
    return f"{PACKAGES[name]} {version(PACKAGES[name])}"


def protocol_named(name: str) -> Protocol:
    """Returns the protocol with name `name`. Raises a ProtocolError if no package provides the protocol."""
    if name not in PROTOCOLS:
        cure = "install the package that brings it (experiment.json of the store names it)"
        raise ProtocolError(name, [f"no installed package brings it; {cure}; there are {', '.join(PROTOCOLS)}"])
    return PROTOCOLS[name]


def protocol_form(name: str, form: Form = "program") -> ProgramForm | DataflowForm:
    """Returns a form of a protocol. Imports PySpark.

    The first call for a form from another package checks this form against the contract.

    Raises:
        ProtocolError: No package provides the protocol, its module cannot be imported, or it breaks the contract.
    """
    from pipelines.contract.nodes import ProgramForm  # loads PySpark

    protocol = protocol_named(name)
    known = _loaded.get((name, form))
    if known is not None and known[0] is protocol:
        return known[1]
    try:
        found = ProgramForm(protocol) if form == "program" else _steps(protocol)
    except TypeError as error:
        raise ProtocolError(name, [str(error)]) from error
    if not any(protocol is own for own in _OWN):
        from pipelines.contract.check import check_protocol  # loads the SQL parser

        check_protocol(protocol, found, ["pipelines.sql", *(one.views for one in PROTOCOLS.values() if one.views)])
    _loaded[name, form] = protocol, found
    return found


def _steps(protocol: Protocol) -> DataflowForm:
    from pipelines.contract.round import DataflowForm  # loads PySpark

    if protocol.steps is None:
        raise ProtocolError(protocol.name, ["it has no form dataflow; it has program"])
    try:
        found = getattr(importlib.import_module(protocol.steps), "STEPS", None)
    except ImportError as error:
        raise ProtocolError(protocol.name, [f"its module {protocol.steps} cannot be imported: {error}"]) from error
    if not isinstance(found, DataflowForm):
        told = f"its steps are module {protocol.steps}, whose STEPS is a {type(found).__name__}"
        raise ProtocolError(protocol.name, [f"{told}; allowed: an object of a subclass of DataflowForm"])
    return found


def _take(entry: EntryPoint) -> None:
    package = entry.dist.name if entry.dist is not None else "?"
    try:
        protocol = entry.load()
        for folder in (getattr(protocol, "scenarios", None), getattr(protocol, "views", None)):
            if folder is not None:
                importlib.import_module(folder)
    except Exception as error:  # an import may fail in any way; the other packages stay available
        BROKEN[entry.name] = f"package {package}: {entry.value} cannot be loaded ({type(error).__name__}: {error})"
        return
    if not isinstance(protocol, Protocol):
        BROKEN[entry.name] = f"package {package}: {entry.value} is no Protocol"
    elif protocol.name in PROTOCOLS:
        taken = PACKAGES[protocol.name]
        BROKEN[entry.name] = f"package {package}: a protocol called {protocol.name} already exists, from {taken}"
    else:
        PROTOCOLS[protocol.name], PACKAGES[protocol.name] = protocol, package


for _entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.dist.name if entry.dist else "", entry.name)):
    _take(_entry)
