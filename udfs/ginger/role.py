"""What the sections of the thesis ask of the node that they are part of: brokers and clients answer differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from udfs.ginger.buffer import Buffer, Event, Runs
from udfs.ginger.messages import ParentRequest
from udfs.ginger.node import Node
from udfs.ginger.queue import Message
from udfs.ginger.repair_records import Parked


class Role(ABC):
    """A broker or a client.

    Attributes:
        node: The node.
    """

    node: Node

    # ---- what the network brings

    @abstractmethod
    def handle(self, m: Any, src: int) -> None:  # noqa: ANN401 - any message
        """Handles a message."""

    @abstractmethod
    def on_timer(self, name: str, key: int) -> None:
        """Handles a timer that has run out."""

    @abstractmethod
    def neighbour_down(self, neighbour: int) -> None:
        """A neighbour failed."""

    @abstractmethod
    def end_round(self) -> None:
        """Ends a round."""

    # ---- the search for a parent (section 4.2.3)

    @abstractmethod
    def candidates(self) -> list[int]:
        """Returns the brokers to ask, in order."""

    @abstractmethod
    def seek(self) -> None:
        """Looks for a parent, or elects one."""

    @abstractmethod
    def request(self) -> ParentRequest:
        """Returns its ParentRequest."""

    @abstractmethod
    def attached(self) -> None:
        """A new parent took it in; what else there is to do waits for its ParentBuffer."""

    @abstractmethod
    def lost(self, broker: int) -> None:
        """Notes that a broker failed."""

    @abstractmethod
    def came_back(self, broker: int) -> None:
        """A newcomer was asked, and has no place to give."""

    @abstractmethod
    def view_changed(self) -> None:
        """It sees the tree otherwise than before."""

    # ---- messages that are missing (section 4.3.2)

    @abstractmethod
    def buffer(self, topic: str) -> Buffer:
        """Returns the buffer of a topic."""

    @abstractmethod
    def collect(self, topic: str, runs: Runs) -> None:
        """Forgets messages that everybody has had."""

    @abstractmethod
    def needs(self, partner: int, event: Event) -> bool:
        """Returns whether the body of a message that a partner tells of is needed here."""

    @abstractmethod
    def own_copy(self, message: Message) -> Message:
        """Returns a message with its body, if it has it elsewhere than in the buffer."""

    @abstractmethod
    def resume(self, parked: Parked) -> None:
        """Handles what was put aside."""

    @abstractmethod
    def ask_publisher(self, message: Message, lacking: int, sender: int | None) -> None:
        """Lets the client that published a message know that a node lacks it."""
