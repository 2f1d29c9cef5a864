"""Calls beside those of subscriptions and publications, for protocols that take some (`Protocol.calls`)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Tag

from pipelines.spec.base import NodeName, Round, Topic, by_name
from pipelines.spec.times import Timed


class _Call(Timed):
    at: NodeName = Field(description="the node that calls")
    round: Round = Field(description="the round of the call")


class JoinCall(_Call):
    """A server takes part from then on."""

    kind: Literal["join"] = Field(description="what is called")


class LeaveCall(_Call):
    """A server takes part no more, once others can do without it."""

    kind: Literal["leave"] = Field(description="what is called")


class RemoveCall(_Call):
    """A server takes another one, which is dead, for one that has left."""

    kind: Literal["remove"] = Field(description="what is called")
    peer: NodeName = Field(description="the server that is dead")


class _OnTopic(_Call):
    topic: Topic | None = Field(None, description="the topic; without it the one that has no name")
    peer: NodeName = Field(description="the other node that the call is about")


class SteerCall(_OnTopic):
    """A client turns to another server."""

    kind: Literal["steer"] = Field(description="what is called")


class RegisterCall(_OnTopic):
    """The owner of a topic authorises a client."""

    kind: Literal["register"] = Field(description="what is called")
    role: Literal["publisher", "subscriber"] = Field(description="what the client may be")


class DeregisterCall(_OnTopic):
    """The owner of a topic takes an authorisation back."""

    kind: Literal["deregister"] = Field(description="what is called")
    role: Literal["publisher", "subscriber"] = Field(description="what the client was")


OtherCall: TypeAlias = Annotated[
    Annotated[JoinCall, Tag("<join>")]
    | Annotated[LeaveCall, Tag("<leave>")]
    | Annotated[RemoveCall, Tag("<remove>")]
    | Annotated[SteerCall, Tag("<steer>")]
    | Annotated[RegisterCall, Tag("<register>")]
    | Annotated[DeregisterCall, Tag("<deregister>")],
    by_name("kind"),
]
OTHER_CALLS = (JoinCall, LeaveCall, RemoveCall, SteerCall, RegisterCall, DeregisterCall)
"""The models of `OtherCall`."""
