"""``cathedra classic-test-driver controller`` and ``kubelet-plugin``: the driver that tested DRA from 1.26 to 1.31."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

import msgspec
import uvloop

from cathedra.classic.testdriver import TestResources, read_resources
from cathedra.cli.configuration import absolute, driver_place, pairs
from cathedra.cli.partoptions import DEBUG_FROM
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.standalone.classicprograms import (
    TestControllerConfig,
    TestPluginConfig,
    run_test_controller,
    run_test_plugin,
)
from cathedra.releases.table import CLASSIC_RELEASES


def run(arguments: argparse.Namespace) -> int:
    """Run one of the two programs until it is stopped."""
    configure_logging("debug" if arguments.v >= DEBUG_FROM else arguments.log_level, arguments.log_format)
    for gate, _ in pairs("--feature-gates", filter(None, arguments.feature_gates.split(","))):
        _say(f"--feature-gates: {gate} has no effect here")
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
    place = driver_place(arguments, os.environ)
    return TestPluginConfig(
        driver=arguments.drivername,
        node_name=place.node_name,
        plugin_dir=place.plugins / arguments.drivername,
        registry_dir=place.registry,
        cdi_dir=place.cdi,
        release=_release(arguments.kubernetes_version),
        kubeconfig=place.kubeconfig,
    )


def _release(text: str) -> str:
    if text not in CLASSIC_RELEASES:
        raise InvalidOption(f"--kubernetes-version must be one of {', '.join(CLASSIC_RELEASES)}, got {text!r}")
    return text


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
