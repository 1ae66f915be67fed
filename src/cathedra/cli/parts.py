"""``cathedra apiserver``, ``scheduler``, ``controller-manager``, ``node``, ``driver``: each part alone."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from cathedra.cli.configuration import absolute, driver_config, gate_overrides, server_config
from cathedra.cluster import standalone
from cathedra.cluster.config import InvalidOption, default_data_dir
from cathedra.cluster.health import HealthOptions
from cathedra.cluster.logs import configure_logging
from cathedra.cluster.standalone import PartConfig, ServingOptions

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Run one part until it is told to stop."""
    configure_logging(arguments.log_level, arguments.log_format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_part(arguments))
    return 0


def _part(arguments: argparse.Namespace) -> Coroutine[Any, Any, None]:
    if arguments.part == "apiserver":
        return standalone.run_apiserver(server_config(arguments), say=_say)
    if arguments.part == "scheduler":
        return standalone.run_scheduler(_elected(arguments), say=_say)
    if arguments.part == "controller-manager":
        return standalone.run_controllers(_elected(arguments), say=_say)
    if arguments.part == "node":
        config = PartConfig(
            kubeconfig=arguments.kubeconfig,
            release=arguments.kubernetes_version,
            gates=gate_overrides(arguments.feature_gates),
            node_name=arguments.node_name,
            root=_root(arguments),
            runtime=arguments.runtime,
            serving=ServingOptions(
                address=arguments.address,
                port=arguments.port,
                certificate=absolute(arguments.tls_cert_file),
                key=absolute(arguments.tls_private_key_file),
                client_authority=absolute(arguments.client_ca_file),
            ),
        )
        return standalone.run_node(config, say=_say)
    config = PartConfig(
        kubeconfig=arguments.kubeconfig,
        node_name=arguments.node_name,
        root=_root(arguments),
        cdi=absolute(arguments.cdi_dir),
        driver=driver_config(arguments),
    )
    return standalone.run_driver(config, say=_say)


def _elected(arguments: argparse.Namespace) -> PartConfig:
    return PartConfig(
        kubeconfig=arguments.kubeconfig,
        release=arguments.kubernetes_version,
        gates=gate_overrides(arguments.feature_gates),
        leader_elect=arguments.leader_elect,
        lease=arguments.leader_elect_resource_name,
        scheduler_file=absolute(getattr(arguments, "config", None)),
        controllers=getattr(arguments, "controllers", "*"),
        signing=_signing(arguments),
        own_credentials=getattr(arguments, "use_service_account_credentials", False),
        health=HealthOptions(address=arguments.bind_address, port=arguments.secure_port),
    )


def _signing(arguments: argparse.Namespace) -> tuple[Path, Path] | None:
    certificate = absolute(getattr(arguments, "cluster_signing_cert_file", None))
    key = absolute(getattr(arguments, "cluster_signing_key_file", None))
    if (certificate is None) != (key is None):
        raise InvalidOption("--cluster-signing-cert-file and --cluster-signing-key-file belong together: name both")
    return (certificate, key) if certificate is not None and key is not None else None


def _root(arguments: argparse.Namespace) -> Path:
    chosen: Path = arguments.root_dir or default_data_dir() / "nodes" / arguments.node_name
    return chosen.expanduser().absolute()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
