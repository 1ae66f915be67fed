"""The cluster that a command reads: a dump, or the one that kubectl would use."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.options import release
from cathedra.cluster.parts.gctuning import suspend_collection, tune_collection
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.podtemplates import PodTemplates, parse_paths
from cathedra.insight.reading.state import ClusterState
from cathedra.releases import parse_overrides

TIMEOUT: Final = 120.0
"""Seconds that a command may take."""


def add_source(parser: argparse.ArgumentParser, *, dump: bool = True) -> None:
    """Add the options that select the cluster; without ``dump`` for commands that take dumps otherwise."""
    source = parser.add_argument_group("the cluster")
    if dump:
        source.add_argument(
            "--dump",
            action="append",
            metavar="PATH",
            default=[],
            help="read a dump instead of a cluster: a file, directory or archive (.tar.gz, .zip), or - for standard "
            "input; repeatable",
        )
    source.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig, as for kubectl")
    source.add_argument("--context", default="", metavar="NAME", help="context, as for kubectl")
    source.add_argument(
        "--kubernetes-version",
        type=release,
        default="",
        metavar="1.N",
        help="release whose defaults apply (default: the server's; for dumps that of the kubelets, or the newest)",
    )
    source.add_argument(
        "--feature-gates",
        default="",
        metavar="GATE=BOOL,…",
        help="feature gates (default: those that the server reports at /metrics, else the release's defaults)",
    )


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add ``--timeout``, which `cathedra.cli.dra.main.run` keeps."""
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"time limit (default {TIMEOUT:g}; 0: none)",
    )


def add_pod_templates(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--pod-template``, which can be repeated."""
    parser.add_argument(
        "--pod-template",
        action="append",
        default=[],
        metavar="GROUP/KIND=PATH[,COUNT]",
        help="where a kind of another project has its pod template, and the number of its pods, as "
        "argoproj.io/Rollout=spec.template,spec.replicas; [*] is every element of a list (repeatable; JobSet, Ray, "
        "LeaderWorkerSet, Volcano and Kubeflow are known)",
    )


def add_validation(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--validate``, as kubectl has it."""
    parser.add_argument(
        "--validate",
        default="strict",
        metavar="strict|warn|ignore",
        help="treatment of unknown fields in manifests, as for kubectl apply: refuse them (strict or true; default), "
        "note them (warn), or drop them (ignore, or false)",
    )


def add_html(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--html``."""
    parser.add_argument(
        "--html", default="", metavar="FILE", help="write a page with a picture of the devices instead (-: print it)"
    )


def write_html(name: str, text: str) -> None:
    """Write a page to a file, or print it.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if name == "-":
        print(text, end="")
        return
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--html {name}: {error.strerror}") from error


def pod_templates_of(arguments: argparse.Namespace) -> PodTemplates:
    """Return the known pod templates, with those of the option.

    Raises:
        InvalidInput: one has another form.
    """
    return parse_paths(arguments.pod_template)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e6:
        raise ValueError(text)
    return seconds


def add_namespace(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the option ``-n`` with its purpose."""
    parser.add_argument("-n", "--namespace", default="", metavar="NAME", help=purpose)


def namespace_of(arguments: argparse.Namespace) -> str:
    """Return the namespace that is meant: the one that is given, else that of the context, else ``default``."""
    given: str = arguments.namespace
    if given:
        return given
    # A question for replay is no cluster either.
    offline = arguments.dump or getattr(arguments, "replay", None)
    if offline:
        return "default"
    # start-up time: a dump needs no client
    from cathedra.cli.dra.live import target_of

    return target_of(arguments).namespace


def read_state(arguments: argparse.Namespace) -> ClusterState:
    """Read it.

    Raises:
        InvalidInput: the dump cannot be read.
        KubeconfigError: there is no usable configuration.
        ConnectionError: the server cannot be reached.
        StatusError: it refuses.
        UnknownGate: the version is not known.
    """
    # A large state is hundreds of thousands of objects and no garbage: looking for cycles among them would double the
    # time of a command (1,000 nodes with 8 devices: `devices` takes 0.22 s instead of 0.5 s).
    suspend_collection()
    try:
        if not arguments.dump:
            # start-up time: as above
            import asyncio

            from cathedra.cli.dra.live import read_cluster

            return asyncio.run(read_cluster(arguments))
        paths: Any = [Path(path) for path in arguments.dump]
        return read_dump(
            paths if len(paths) > 1 else paths[0],
            release=arguments.kubernetes_version,
            feature_gates=parse_overrides(arguments.feature_gates),
        )
    finally:
        tune_collection()
