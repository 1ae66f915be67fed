"""Differences between generations of Dynamic Resource Allocation: kinds of resource.k8s.io, and parts that use them.

From 1.26 to 1.30 drivers allocate (`cathedra.classic`), later the scheduler does; 1.31 has both. The current parts have
no code for the first generation; this module selects the parts of a release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cathedra.client.client import Client
from cathedra.controllers.controller_manager import MakeController
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates, classic
from cathedra.releases.served import documented_device_version
from cathedra.scheduler.composition import MakeClaimPlugin, device_plugin

if TYPE_CHECKING:
    from cathedra.node.plugins.client import MakeDial, PluginClient


def how_to_enable_devices(gates: FeatureGates) -> str:
    """Return the options that enable Dynamic Resource Allocation in a release whose API server does not serve it."""
    version = documented_device_version(gates.release)
    flags = [f"--runtime-config resource.k8s.io/{version}=true"]
    if not gates["DynamicResourceAllocation"]:
        flags.insert(0, "--feature-gates DynamicResourceAllocation=true")
    return f"Dynamic Resource Allocation is off in {gates.release} without {' '.join(flags)}"


def _today(client: Client) -> Client:
    return client


def _dial_today(client: Client, gates: FeatureGates, node: str) -> MakeDial | None:
    return None


def _no_plugins(client: Client, node: str) -> Mapping[str, PluginClient]:
    return {}


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one generation."""

    definitions: tuple[AnyDefinition, ...] | None = None
    """Every kind that the release has; None: today's, as it serves them by default."""
    client: Callable[[Client], Client] = _today
    """The client for which all releases of the generation look alike."""
    make_claim_plugin: MakeClaimPlugin = device_plugin
    controllers: Mapping[str, MakeController] = msgspec.field(default_factory=dict)
    """Controllers that are others than today's, by name."""
    make_dial: Callable[[Client, FeatureGates, str], MakeDial | None] = _dial_today
    """Returns how a node agent, given its client and name, connects to drivers."""
    simulated_plugins: Callable[[Client, str], Mapping[str, PluginClient]] = _no_plugins
    """Drivers that simulated nodes have, which no program can reach; the node's client and name are given."""
    has_example_driver: bool = True
    """True if nodes come with the example driver of today."""


def client_of_any_release(client: Client) -> Client:
    """Return a client that sees claims and classes of either generation as rooms of today read them."""
    # start-up time: for those who do not know the release
    from cathedra.classic.resources import classic_client

    return classic_client(client)


def generation_of(gates: FeatureGates) -> Generation:
    """Return the generation of a release."""
    if not gates.has(classic.DRIVERS_ALLOCATE):
        return Generation()
    if not gates.has(classic.RESOURCE_CLASSES):
        return _control_plane(gates)
    # start-up time: with releases of that time alone
    from cathedra.classic.claimcontroller import ClassicResourceClaimController
    from cathedra.classic.kinds.definitions import classic_definitions
    from cathedra.classic.resources import classic_client
    from cathedra.classic.scheduling.plugin import negotiating_plugin

    return Generation(
        definitions=all_definitions(gates, classic_definitions(gates)),
        client=classic_client,
        make_claim_plugin=negotiating_plugin,
        controllers={"resourceclaim-controller": ClassicResourceClaimController},
        make_dial=_dial_classic,
        simulated_plugins=_test_driver,
        has_example_driver=False,
    )


def _control_plane(gates: FeatureGates) -> Generation:
    """1.31: the scheduler allocates, and so do controllers where the gate for them is open."""
    # start-up time: with that release alone
    from cathedra.classic.controlplane.claimcontroller import ControlPlaneClaimController
    from cathedra.classic.controlplane.controller import control_plane_client
    from cathedra.classic.controlplane.kinds import control_plane_definitions
    from cathedra.classic.controlplane.plugin import control_plane_plugin

    controllers = {"resourceclaim-controller": ControlPlaneClaimController}
    return Generation(
        definitions=all_definitions(gates, control_plane_definitions(gates)),
        client=control_plane_client,
        make_claim_plugin=control_plane_plugin,
        controllers=controllers if gates["DRAControlPlaneController"] else {},
        make_dial=_dial_control_plane,
    )


def _dial_classic(client: Client, gates: FeatureGates, node: str) -> MakeDial | None:
    # start-up time: gRPC, with sockets alone
    from cathedra.classic.nodes.client import classic_dial

    return classic_dial(client, gates, node)


def _dial_control_plane(client: Client, gates: FeatureGates, node: str) -> MakeDial | None:
    # start-up time: gRPC, with sockets alone
    from cathedra.classic.controlplane.dial import control_plane_dial

    return control_plane_dial(gates)


def _test_driver(client: Client, node: str) -> Mapping[str, PluginClient]:
    # start-up time: on simulated nodes alone
    from cathedra.classic.nodes.inprocess import InProcessNodeDriver
    from cathedra.classic.testdriver import DRIVER_NAME, TestNodeDriver
    from cathedra.driver.files import MemoryFiles

    driver = TestNodeDriver(DRIVER_NAME, node, cdi_dir=Path("/cdi"), files=MemoryFiles())
    return {DRIVER_NAME: InProcessNodeDriver(client, DRIVER_NAME, driver)}
