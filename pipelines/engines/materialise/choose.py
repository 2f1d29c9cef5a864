"""Which materialiser suits a session."""

from __future__ import annotations

from pipelines.engines.materialise.base import Materialiser
from pipelines.engines.materialise.driver import RowsMaterialiser
from pipelines.engines.materialise.files import FileMaterialiser
from pipelines.engines.materialise.memory import MemoryMaterialiser, RemoteMaterialiser
from pipelines.engines.session import Session


def materialiser_for(session: Session, *, is_eventful: bool = False) -> Materialiser:
    """Chooses how the session's engine keeps relations.

    Args:
        session: The engine.
        is_eventful: Whether rounds have many steps over few rows.

    The scratch folder is for engines in this process: nobody knows which folders a remote server sees.
    """
    match session.engine:
        case "spark":
            return RowsMaterialiser(session) if is_eventful else MemoryMaterialiser(session)
        case "connect":
            return RemoteMaterialiser(session)
        case "sail":
            return FileMaterialiser(session)
