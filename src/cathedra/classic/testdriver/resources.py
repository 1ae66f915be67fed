"""Resources of the test driver: the number of claims, their nodes, and whether pods share them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from cathedra.api.struct import decode
from cathedra.driver.errors import DriverError

DRIVER_NAME = "test-driver.cdi.k8s.io"


class InvalidResources(DriverError):
    """The file of ``--resource-config`` describes no resources."""


class TestResources(msgspec.Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """The resources of one test driver; in files with the names that the Go program reads."""

    __test__ = False

    dont_set_reserved_for: bool = False
    """Leave it to the scheduler to reserve claims for pods."""
    node_local: bool = False
    """True if each node has resources of its own, rather than the cluster."""
    nodes: tuple[str, ...] = ()
    """The nodes that have resources; () means all, where they are the cluster's."""
    max_allocations: int = 0
    """Number of claims at a time, on each node or in the cluster. 0 is no limit."""
    shareable: bool = False
    """True if an allocated claim serves any number of pods."""

    def available_on(self, node: str) -> NodeSelector | None:
        """Return the nodes that can use a claim that was allocated on ``node``, or in the cluster (""). None means
        all."""
        names = (node,) if node else self.nodes
        if not names:
            return None
        requirement = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=names)
        return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))

    def allocation(self, driver: str, node: str, data: str) -> v1alpha2.AllocationResult:
        """Return the allocation of a claim."""
        return v1alpha2.AllocationResult(
            resource_handles=(v1alpha2.ResourceHandle(driver_name=driver, data=data),),
            available_on_nodes=self.available_on(node),
            shareable=self.shareable,
        )


@dataclass(frozen=True, slots=True)
class HandleData:
    """Data for the node plugin, as JSON in the claim's handle."""

    env: dict[str, str]
    node: str

    def encode(self) -> str:
        """As the Go programs write it."""
        return msgspec.json.encode({"EnvVars": self.env, "NodeName": self.node}).decode()

    @staticmethod
    def decode(data: str) -> HandleData:
        """From a handle; an empty one has no data.

        Raises:
            ValueError: it is no handle of this driver.
        """
        if not data:
            return HandleData({}, "")
        try:
            wire = decode(_Wire, data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"resource handle {data!r}: {error}") from error
        return HandleData(wire.env_vars, wire.node_name)


class _Wire(msgspec.Struct, rename="pascal"):
    env_vars: dict[str, str] = {}
    node_name: str = ""


def read_resources(path: Path) -> TestResources:
    """The resources that a file describes.

    Raises:
        InvalidResources: it cannot be read or understood.
    """
    try:
        return decode(TestResources, path.read_bytes())
    except OSError as error:
        raise InvalidResources(f"--resource-config {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidResources(f"--resource-config {path}: {error}") from error
