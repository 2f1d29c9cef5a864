"""Which materialiser suits a session."""

from __future__ import annotations

from pipelines.engines.materialise.base import Materialiser
from pipelines.engines.materialise.files import FileMaterialiser
from pipelines.engines.materialise.memory import MemoryMaterialiser, RemoteMaterialiser
from pipelines.engines.materialise.planned import PlannedMaterialiser
from pipelines.engines.session import Session


def materialiser_for(session: Session, *, is_small: bool = False, is_eventful: bool = False) -> Materialiser:
    """Chooses how the session's engine keeps relations.

    Args:
        session: The engine.
        is_small: Whether all relations have few rows.
        is_eventful: Whether rounds have many steps over few rows, as when nodes crash.

    The scratch folder is for engines in this process: nobody knows which folders a remote server sees.
    """
    if session.planner is not None:
        return PlannedMaterialiser(session, session.planner, is_small=is_small, is_eventful=is_eventful)
    match session.engine:
        case "spark":
            return MemoryMaterialiser(session)
        case "connect":
            return RemoteMaterialiser(session)
        case "sail":
            return FileMaterialiser(session)
