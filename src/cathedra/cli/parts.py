"""``cathedra apiserver``, ``scheduler``, ``controller-manager``, ``advisor``, ``node``, ``driver``: each part alone."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from cathedra.cli.configuration import (
    absolute,
    driver_config,
    driver_place,
    gate_overrides,
    gates_without_effect,
    reserved_resources,
    server_config,
)
from cathedra.client.leaderelection import JITTER_FACTOR, LeaseTiming
from cathedra.cluster.config import InvalidOption, default_data_dir
from cathedra.cluster.identity.reach import LOOPBACK
from cathedra.cluster.process.health import HealthOptions
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.process.plainhealth import PlainEndpoint, endpoint_of
from cathedra.cluster.standalone import controlplane, node
from cathedra.cluster.standalone.config import PartConfig, ServingOptions


def run(arguments: argparse.Namespace) -> int:
    """Run one part until it is stopped."""
    configure_logging(arguments.log_level, arguments.log_format)
    if getattr(arguments, "feature_gates", ""):
        for line in gates_without_effect(arguments.kubernetes_version, gate_overrides(arguments.feature_gates)):
            _say(line)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_part(arguments))
    return 0


def _part(arguments: argparse.Namespace) -> Coroutine[Any, Any, None]:
    if arguments.part == "apiserver":
        return controlplane.run_apiserver(server_config(arguments), say=_say)
    if arguments.part == "scheduler":
        return controlplane.run_scheduler(_elected(arguments), say=_say)
    if arguments.part == "controller-manager":
        return controlplane.run_controllers(_elected(arguments), say=_say)
    if arguments.part == "advisor":
        return _advisor(arguments)
    if arguments.part == "node":
        return node.run_node(_node_config(arguments), say=_say)
    return node.run_driver(_driver_part_config(arguments), say=_say)


def _node_config(arguments: argparse.Namespace) -> PartConfig:
    return PartConfig(
        kubeconfig=arguments.kubeconfig,
        release=arguments.kubernetes_version,
        gates=gate_overrides(arguments.feature_gates),
        node_name=arguments.node_name,
        root=_root(arguments),
        runtime=arguments.runtime,
        cri_socket=arguments.cri_socket,
        pod_network=arguments.pod_network,
        reserved=reserved_resources(arguments),
        keep_containers=arguments.keep_containers,
        serving=ServingOptions(
            address=arguments.address or arguments.node_ip or LOOPBACK,
            node_ip=arguments.node_ip,
            port=arguments.port,
            healthz=PlainEndpoint("--healthz-port", arguments.healthz_bind_address, arguments.healthz_port),
            rotate_client=arguments.rotate_certificates,
            rotate_server=arguments.rotate_server_certificates,
            certificate=absolute(arguments.tls_cert_file),
            key=absolute(arguments.tls_private_key_file),
            client_authority=absolute(arguments.client_ca_file),
        ),
    )


def _driver_part_config(arguments: argparse.Namespace) -> PartConfig:
    place = driver_place(arguments, os.environ)
    return PartConfig(
        kubeconfig=place.kubeconfig,
        node_name=place.node_name,
        root=place.root,
        plugins=place.plugins,
        registry=place.registry,
        cdi=place.cdi,
        driver=driver_config(arguments),
        module=arguments.module,
        driver_file=absolute(arguments.driver_config),
        driver_root=absolute(arguments.driver_root),
        pod_uid=arguments.pod_uid or os.environ.get("POD_UID", ""),
        endpoint=endpoint_of("--http-endpoint", arguments.http_endpoint),
    )


def _advisor(arguments: argparse.Namespace) -> Coroutine[Any, Any, None]:
    # start-up time: the tools of insight, with this part alone
    from cathedra.advisor.advisor import AdvisorOptions
    from cathedra.advisor.alarm import Bounds
    from cathedra.advisor.program import AdvisorConfig, run_advisor

    for name in ("max_events_per_minute", "would_fit_after", "history_days", "questions_per_minute"):
        if getattr(arguments, name) < 1:
            raise InvalidOption(f"--{name.replace('_', '-')} must be at least 1, got {getattr(arguments, name)}")
    options = AdvisorOptions(
        events=arguments.events == "on",
        namespace=arguments.namespace,
        events_per_minute=arguments.max_events_per_minute,
        bounds=Bounds(refused=float(arguments.would_fit_after)),
        history=Path(arguments.history) if arguments.history else None,
        history_days=float(arguments.history_days),
    )
    part = _elected(arguments)
    answers = None
    if part.health.port and arguments.answers == "on":
        # start-up time: the engine and its tools, with the port alone
        from cathedra.mcp.answering import AnswerLimits
        from cathedra.mcp.http import serving_answers

        answers = partial(serving_answers, limits=AnswerLimits(per_minute=arguments.questions_per_minute))
    return run_advisor(AdvisorConfig(part=part, options=options, answers=answers), say=_say)


def _elected(arguments: argparse.Namespace) -> PartConfig:
    return PartConfig(
        kubeconfig=arguments.kubeconfig,
        release=arguments.kubernetes_version,
        gates=gate_overrides(arguments.feature_gates),
        leader_elect=arguments.leader_elect,
        lease=arguments.leader_elect_resource_name,
        lease_timing=_lease_timing(arguments),
        scheduler_file=absolute(getattr(arguments, "config", None)),
        controllers=getattr(arguments, "controllers", "*"),
        signing=_signing(arguments),
        own_credentials=getattr(arguments, "use_service_account_credentials", False),
        health=HealthOptions(
            address=arguments.bind_address,
            port=arguments.secure_port,
            certificate=absolute(arguments.tls_cert_file),
            key=absolute(arguments.tls_private_key_file),
        ),
    )


def _lease_timing(arguments: argparse.Namespace) -> LeaseTiming | None:
    """Return the timing of the lease; None: no option sets it."""
    options = {
        name: getattr(arguments, f"leader_elect_{name}")
        for name in ("lease_duration", "renew_deadline", "retry_period")
    }
    if not any(options.values()):
        return None
    from cathedra.cel.library.times import parse_duration  # start-up time: with the options alone

    given: list[float | None] = []
    for name, text in options.items():
        duration = parse_duration(text) if text else None
        if text and (duration is None or duration.nanos <= 0):
            raise InvalidOption(f"--leader-elect-{name.replace('_', '-')}: {text!r} is no duration, as 15s or 1m30s")
        given.append(None if duration is None else duration.nanos / 1e9)
    defaults = msgspec.structs.astuple(LeaseTiming())
    timing = LeaseTiming(*(one or default for one, default in zip(given, defaults, strict=True)))
    if timing.lease <= timing.renew_deadline:
        raise InvalidOption("--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline")
    if timing.renew_deadline <= timing.retry * JITTER_FACTOR:
        raise InvalidOption(
            f"--leader-elect-renew-deadline must be greater than {JITTER_FACTOR} times --leader-elect-retry-period"
        )
    return timing


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
