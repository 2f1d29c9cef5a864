"""Protocol ``flooding``: every publication goes over every link of an overlay, which may have cycles."""

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.audit import arrow_bound, sql_audits, sql_files
from pipelines.contract.protocol import Protocol
from pipelines.contract.settings import Strict
from udfs.flooding import Flooding
from udfs.reach import flooding_beyond


class FloodingSettings(Strict):
    """Settings of protocol ``flooding``."""

    name: Literal["flooding"] = Field("flooding", description="selects this protocol")
    max_hops: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None,
        description="null: nodes store the ids of publications and drop duplicates; a number: a copy crosses at most "
        "this number of links, and nodes store no ids and drop no duplicates",
    )


PROTOCOL = Protocol(
    name="flooding",
    summary="every publication goes over every link, duplicates are dropped, the overlay may have cycles",
    settings=FloodingSettings,
    program=Flooding,
    audits=sql_audits("pipelines.protocols.flooding.audits"),
    bound=arrow_bound(sql_files(__name__)["bound"], flooding_beyond),
    assumes=frozenset({"no_loss"}),
    draws=False,
    application=("PUB",),
)
