"""Which materialiser suits a session."""

from __future__ import annotations

from pipelines.engines.materialise.base import Materialiser
from pipelines.engines.materialise.files import FileMaterialiser
from pipelines.engines.materialise.memory import MemoryMaterialiser, RemoteMaterialiser
from pipelines.engines.materialise.planned import PlannedMaterialiser
from pipelines.engines.session import Session


def materialiser_for(
    session: Session, *, is_small: bool = False, is_eventful: bool = False, n_runs: int | None = None
) -> Materialiser:  # fmt: skip
    """Chooses how the session's engine keeps relations.

    Args:
        session: The engine.
        is_small: Whether all relations have few rows.
        is_eventful: Whether rounds have many steps over few rows, as when nodes crash.
        n_runs: How many runs there are; Spark partitions relations by node, too, where they are fewer than partitions.

    The scratch folder is for engines in this process: nobody knows which folders a remote server sees.
    """
    is_by_node = n_runs is not None and n_runs < session.partitions
    if session.planner is not None:
        return PlannedMaterialiser(
            session, session.planner, is_small=is_small, is_eventful=is_eventful, is_by_node=is_by_node
        )  # fmt: skip
    match session.engine:
        case "spark":
            return MemoryMaterialiser(session, is_by_node=is_by_node)
        case "connect":
            return RemoteMaterialiser(session, is_by_node=is_by_node)
        case "local":
            return FileMaterialiser(session)
