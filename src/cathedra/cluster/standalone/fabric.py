"""The controller of a fabric driver as a process: one of several, of which one leads."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from cathedra.client import kubeconfig
from cathedra.client.arrival import server_arrives
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.leaderelection import make_elector
from cathedra.clock import SystemClock
from cathedra.cluster.process.plainhealth import PlainEndpoint, serving_plain_health
from cathedra.cluster.process.signals import run_until, stop_event

if TYPE_CHECKING:
    from cathedra.driver.fabric.driver import FabricDriver

ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricConfig:
    """Configuration of a fabric driver's controller."""

    kubeconfig: Path | None = None
    """File; None: found as kubectl does."""
    lease_namespace: str = "default"
    """Namespace of the Lease with the driver's name."""
    owner_class: str = ""
    """A DeviceClass with which the slices vanish; "": they stay."""
    endpoint: PlainEndpoint = field(default_factory=lambda: PlainEndpoint("--http-endpoint"))
    """Address of health and metrics."""


def lease_namespace(chosen: str, environment: Mapping[str, str], account: Path = ACCOUNT_NAMESPACE) -> str:
    """Return the namespace of the lease: the one chosen, else the pod's, else ``default`` (docs/spec/driver-sdk.md
    §15)."""
    if chosen or environment.get("POD_NAMESPACE"):
        return chosen or environment["POD_NAMESPACE"]
    try:
        return account.read_text().strip() or "default"
    except OSError:
        return "default"


async def run_fabric(driver: FabricDriver, config: FabricConfig, *, say: Callable[[str], None]) -> None:
    """Publish the pools of the fabric and attach their devices, while leading, until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        LostLeadership: another instance may lead now.
        StatusError: the DeviceClass that is to own the slices cannot be read.
        DriverError: the driver is not set up, or its devices have no form in the API.
    """
    # Only this part: the others would double the start of its process.
    from prometheus_client import CollectorRegistry

    from cathedra.driver.fabric.controller import TIMING, FabricController
    from cathedra.driver.metrics import FabricMetrics

    clock, stopped, target = SystemClock(), stop_event(), kubeconfig.load(config.kubeconfig)
    if not await server_arrives(target, stopped, clock=clock, say=say):
        return
    registry = CollectorRegistry()
    async with await HTTPTransport.open(target, user_agent=f"{driver.name}-fabric") as transport:
        client = Client(transport, clock=clock, field_manager=driver.name)
        elector = make_elector(
            client,
            driver.name,
            clock=clock,
            random=Random(secrets.randbits(64)),
            namespace=config.lease_namespace,
            timing=TIMING,
        )
        controller = FabricController(
            driver,
            client,
            elector=elector,
            owner_class=config.owner_class,
            observer=FabricMetrics(registry) if config.endpoint.port else None,
            say=lambda line: say(f"fabric {driver.name}: {line}"),
        )
        async with serving_plain_health(config.endpoint, lambda: controller.missing, registry, say=say):
            await run_until(stopped, controller.run())
