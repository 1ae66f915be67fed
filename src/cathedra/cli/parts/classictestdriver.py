"""``cathedra classic-test-driver controller`` and ``kubelet-plugin``: the driver that tested DRA from 1.26 to 1.31."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec
import uvloop

from cathedra.classic.testdriver.resources import TestResources, read_resources
from cathedra.cli.configuration import absolute, pairs
from cathedra.cluster.config import InvalidOption, default_data_dir
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.standalone.classicprograms import (
    TestControllerConfig,
    TestPluginConfig,
    run_test_controller,
    run_test_plugin,
)
from cathedra.releases.table import CLASSIC_RELEASES

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run one of the two programs until it is stopped."""
    configure_logging(arguments.log_level, arguments.log_format)
    if arguments.program == "controller":
        job = run_test_controller(_controller(arguments), say=_say)
    else:
        job = run_test_plugin(_plugin(arguments), say=_say)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(job)
    return 0


def _controller(arguments: argparse.Namespace) -> TestControllerConfig:
    file = absolute(arguments.resource_config)
    resources = read_resources(file) if file is not None else TestResources()
    nodes = tuple(filter(None, arguments.nodes.split(",")))
    if arguments.max_allocations < 0:
        raise InvalidOption(f"--max-allocations must not be negative, got {arguments.max_allocations}")
    if arguments.workers < 1:
        raise InvalidOption(f"--workers must be at least 1, got {arguments.workers}")
    resources = msgspec.structs.replace(
        resources,
        nodes=nodes or resources.nodes,
        max_allocations=arguments.max_allocations or resources.max_allocations,
        node_local=arguments.node_local or resources.node_local,
        shareable=arguments.shareable or resources.shareable,
    )
    return TestControllerConfig(
        kubeconfig=arguments.kubeconfig,
        driver=arguments.drivername,
        resources=resources,
        class_parameters=dict(pairs("--class-parameters", filter(None, arguments.class_parameters.split(",")))),
        workers=arguments.workers,
        release=_release(arguments.kubernetes_version),
    )


def _plugin(arguments: argparse.Namespace) -> TestPluginConfig:
    chosen: Path = arguments.root_dir or default_data_dir() / "nodes" / arguments.node_name
    root = chosen.expanduser().absolute()
    return TestPluginConfig(
        driver=arguments.drivername,
        node_name=arguments.node_name,
        plugin_dir=root / "plugins" / arguments.drivername,
        registry_dir=root / "plugins_registry",
        cdi_dir=absolute(arguments.cdi_dir) or root / "cdi",
        release=_release(arguments.kubernetes_version),
        kubeconfig=arguments.kubeconfig,
    )


def _release(text: str) -> str:
    if text not in CLASSIC_RELEASES:
        raise InvalidOption(f"--kubernetes-version must be one of {', '.join(CLASSIC_RELEASES)}, got {text!r}")
    return text


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
