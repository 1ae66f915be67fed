"""The programs of the classic test driver: its controller beside an API server, its plugin beside a node agent."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cathedra.classic.controller import ClassicController
from cathedra.classic.controlplane.controller import ControlPlaneController
from cathedra.classic.controlplane.testcontroller import ControlPlaneTestDriver, ControlPlaneTestPlugin
from cathedra.classic.nodes.plugin import serving
from cathedra.classic.testdriver import DRIVER_NAME, TestDriver, TestNodeDriver, TestResources
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.clock import SystemClock
from cathedra.cluster.process.signals import run_until, stop_event
from cathedra.driver.files import DiskFiles
from cathedra.driver.run import DriverPlacement, DriverRunner
from cathedra.releases import classic
from cathedra.releases.table import DEFAULT_CLASSIC

Say = Callable[[str], None]
"""Receives lines of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestControllerConfig:
    """The controller of the test driver."""

    __test__ = False

    kubeconfig: Path | None = None
    """File; None: found as kubectl does."""
    driver: str = DRIVER_NAME
    resources: TestResources = field(default_factory=TestResources)
    class_parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of classes that refer to none."""
    workers: int = 10
    release: str = DEFAULT_CLASSIC
    """The API server's, from 1.26 to 1.31."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPluginConfig:
    """The node plugin of the test driver."""

    __test__ = False

    driver: str = DRIVER_NAME
    node_name: str = ""
    """Name of its node; "" accepts claims of any node."""
    plugin_dir: Path
    registry_dir: Path
    cdi_dir: Path
    release: str = DEFAULT_CLASSIC
    """The node agent's, from 1.26 to 1.31."""
    kubeconfig: Path | None = None
    """In 1.31, where plugins read claims themselves; None: kubectl's precedence."""


async def run_test_controller(config: TestControllerConfig, *, say: Say) -> None:
    """Allocate claims until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
    """
    stopped, target = stop_event(), kubeconfig.load(config.kubeconfig)
    async with await HTTPTransport.open(target, user_agent=config.driver) as transport:
        client = Client(transport, clock=SystemClock())
        make = _controller_of_131 if _names_controllers(config.release) else _controller
        controller = await make(config, client)
        say(f"controller of {config.driver} for {target.server}")
        await run_until(stopped, controller.run())


def _names_controllers(release: str) -> bool:
    """Return True if claims name the controller that allocates them, as in 1.31."""
    return classic.CLAIMS_NAME_CONTROLLER.holds_in(release)


async def _controller(config: TestControllerConfig, client: Client) -> ClassicController:
    driver = TestDriver(
        client,
        config.driver,
        config.resources,
        random=Random(secrets.randbits(64)),
        class_parameters=config.class_parameters,
    )
    await driver.recover()
    reserves = not config.resources.dont_set_reserved_for
    clock = SystemClock()
    return ClassicController(client, config.driver, driver, clock=clock, reserves=reserves, workers=config.workers)


async def _controller_of_131(config: TestControllerConfig, client: Client) -> ControlPlaneController:
    driver = ControlPlaneTestDriver(client, config.driver, config.resources)
    await driver.recover()
    reserves = not config.resources.dont_set_reserved_for
    clock = SystemClock()
    return ControlPlaneController(client, config.driver, driver, clock=clock, reserves=reserves, workers=config.workers)


async def run_test_plugin(config: TestPluginConfig, *, say: Say) -> None:
    """Prepare claims until SIGINT or SIGTERM.

    Raises:
        OptionError: a directory's name is too long for a socket in it.
        OSError: a directory cannot be used.
        KubeconfigError: there is no usable configuration, in 1.31.
    """
    if _names_controllers(config.release):
        await _run_plugin_of_131(config, say=say)
        return
    stopped = stop_event()
    driver = TestNodeDriver(config.driver, config.node_name, cdi_dir=config.cdi_dir, files=DiskFiles())
    async with serving(
        config.driver, driver, plugin_dir=config.plugin_dir, registry_dir=config.registry_dir
    ) as registration:
        say(f"plugin of {config.driver} serves {registration.info.endpoint}")

        async def announce() -> None:
            await registration.wait_registered(float("inf"), str(config.registry_dir))
            say(f"registered; CDI documents are in {config.cdi_dir}")
            await asyncio.get_running_loop().create_future()

        await run_until(stopped, announce())


async def _run_plugin_of_131(config: TestPluginConfig, *, say: Say) -> None:
    stopped, target = stop_event(), kubeconfig.load(config.kubeconfig)
    async with await HTTPTransport.open(target, user_agent=config.driver) as transport:
        runner = DriverRunner(
            ControlPlaneTestPlugin(config.driver),
            Client(transport, clock=SystemClock()),
            DriverPlacement(
                node_name=config.node_name,
                plugin_dir=config.plugin_dir,
                registry_dir=config.registry_dir,
                cdi_dir=config.cdi_dir,
            ),
            clock=SystemClock(),
            random=Random(secrets.randbits(64)),
        )
        if runner.registration is not None:
            say(f"plugin of {config.driver} serves {runner.registration.info.endpoint}")

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(announce())
                await runner.run()

        async def announce() -> None:
            await runner.wait_ready()
            say(f"registered; CDI documents are in {config.cdi_dir}")

        await run_until(stopped, run())
