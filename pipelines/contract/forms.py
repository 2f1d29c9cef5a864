"""The two forms of a protocol, node program and dataflow steps, and the choice of the form that runs a scenario."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Literal, get_args

from pipelines.errors import FormError, nearest

Form = Literal["program", "dataflow"]
"""A form of a protocol.

- ``program``: a job computes many rounds, with one core for each run;
- ``dataflow``: a job computes one round of all runs.
"""
AskedForm = Literal["auto", "program", "dataflow"]
ASKED_FORMS: Final[tuple[AskedForm, ...]] = get_args(AskedForm)
DATAFLOW_FAULTS: Final = frozenset(["crashes", "joins"])
"""The fault kinds (items of `Inputs.faults`) that dataflow steps support. Other faults need a node program."""
MOST_NODES: Final = 20_000
"""The greatest number of nodes of a run for which ``auto`` selects ``program``.

A run of `delta` takes 20 KB a node in the Python process of its executor. At this limit, it takes 400 MB, about the
default of ``spark.executor.memoryOverhead``. With more memory, a program is faster than dataflow steps above this
limit, too.
"""
_NODE_MB: Final = 0.02
"""Megabytes of Python memory that a node program takes for each node."""

NTH: Final = "faults with nth"
"""The fault kind (item of `Inputs.faults`) of faults with key ``nth``, each of which affects a single message."""


def asked_form(given: AskedForm | None, default: AskedForm) -> AskedForm:
    """Returns `given` if it is set, else the value of environment variable ROUNDTABLE_FORM if set, else `default`.

    Raises:
        FormError: The value of ROUNDTABLE_FORM is not a form.
    """
    named = os.environ.get("ROUNDTABLE_FORM")
    if given is not None or not named:
        return given or default
    if named not in ASKED_FORMS:
        allowed = ", ".join(ASKED_FORMS)
        raise FormError(f"ROUNDTABLE_FORM is {named!r};{nearest(named, ASKED_FORMS)} allowed: {allowed}")
    return named


def chosen_form(
    protocol: str, forms: tuple[Form, ...], asked: AskedForm, n_nodes: int, faults: Sequence[str] = ()
) -> tuple[Form, str]:  # fmt: skip
    """Returns the form that computes the runs of a protocol, and the reason for the choice.

    Args:
        protocol: The protocol.
        forms: The forms that support all faults of the runs.
        asked: The requested form.
        n_nodes: The number of nodes of the largest run.
        faults: The fault kinds that occur in the runs and that dataflow steps do not support.

    Raises:
        FormError: The protocol lacks the requested form.
    """
    if asked != "auto":
        if asked not in forms:
            refused = f" for these runs, which have {' and '.join(faults)}" if faults else ""
            raise FormError(
                f"protocol {protocol} has no form {asked}{refused}; it has {' and '.join(forms)}: "
                f"take --form {forms[0]} or --form auto"
            )
        return asked, "as asked for"
    if len(forms) == 1:
        return forms[0], "the only form for these runs"
    if n_nodes > MOST_NODES:
        needed = f"program is faster, but a run needs {n_nodes * _NODE_MB:,.0f} MB of Python memory in one executor"
        return "dataflow", f"{n_nodes:,} nodes per run exceed {MOST_NODES:,}; {needed}"
    return "program", f"{n_nodes:,} nodes per run do not exceed {MOST_NODES:,}"
