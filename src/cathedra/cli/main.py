"""The ``cathedra`` command: what it can be asked, and nothing of how it is done.

Each command is a module of its own, imported only when it is called: ``cathedra --help`` should cost what Python costs.
Exit codes: 0 yes, 1 no or findings, 2 a wrong call or an error of input and output.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cathedra import __version__

__all__ = ["main"]

EXIT_USAGE: Final = 2

_PARTS: Final = {
    "apiserver": "the API server alone",
    "scheduler": "the scheduler alone",
    "controller-manager": "the controllers alone",
    "node": "a node agent alone",
    "driver": "the example driver alone",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    # gRPC would prepare to be used on both sides of a fork, and complain in vain: here every fork is followed by exec.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    arguments = _parser().parse_args(argv)
    module = importlib.import_module(f"cathedra.cli.{arguments.module}")
    try:
        return int(module.run(arguments))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        from cathedra.cli.complaints import complaint

        line = complaint(error)
        if line is None:
            raise
        print(f"cathedra: {line}", file=sys.stderr)
        return EXIT_USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cathedra",
        description="Kubernetes Dynamic Resource Allocation, whole: a cluster with devices, to use with kubectl.",
    )
    parser.add_argument("--version", action="version", version=f"cathedra {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    up = commands.add_parser("up", help="start a cluster (Ctrl-C stops it, unless --detach)")
    up.set_defaults(module="up")
    _add_cluster_options(up)
    up.add_argument("--detach", action="store_true", help="return when the nodes are ready and their slices published")
    up.add_argument("--no-merge", action="store_true", help="do not add a context to your kubeconfig")
    up.add_argument("--report-fd", type=int, help=argparse.SUPPRESS)

    down = commands.add_parser("down", help="stop the cluster on a data directory")
    down.set_defaults(module="down")
    _add_data_dir(down)

    status = commands.add_parser("status", help="what runs: nodes, devices, claims, pods")
    status.set_defaults(module="status")
    _add_data_dir(status)
    status.add_argument("-o", "--output", choices=("table", "json"), default="table", help="for people or for programs")

    demo = commands.add_parser("demo", help="start a cluster, run a job on simulated GPUs, show what it got, stop it")
    demo.set_defaults(module="demo")
    demo.add_argument("--keep", action="store_true", help="leave the cluster running; stop it with: cathedra down")
    _add_data_dir(demo)
    demo.add_argument("--runtime", choices=("auto", "oci", "process"), default="auto", help="how containers run")

    enrol = commands.add_parser("enrol", help="write the files with which a node joins a cluster")
    enrol.set_defaults(module="enrol")
    _add_data_dir(enrol)
    enrol.add_argument("--node-name", required=True, metavar="NAME", help="the node")
    enrol.add_argument(
        "--address", action="append", metavar="IP", help="where the node is reached (repeatable; default 127.0.0.1)"
    )
    enrol.add_argument("--to", type=Path, metavar="DIR", help="where the files go (default: ./NAME)")

    for part, about in _PARTS.items():
        command = commands.add_parser(part, help=about)
        command.set_defaults(module="parts", part=part)
        _add_part_options(command, part)
    return parser


def _add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where everything is kept (default: $CATHEDRA_DATA_DIR, else the state directory)",
    )


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
    _add_data_dir(parser)
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="how many nodes (default 1)")
    parser.add_argument(
        "--port", type=int, default=0, help="port of the API server (default: the last one used, else a free one)"
    )
    parser.add_argument("--store", default="sqlite", help="sqlite (default), memory, or etcd://HOST:PORT")
    parser.add_argument(
        "--runtime",
        choices=("auto", "oci", "process", "simulated"),
        default="auto",
        help="how containers run: oci (crun or runc, needs root), process, simulated; auto takes the first that works",
    )
    _add_release_options(parser)
    _add_server_options(parser)
    _add_driver_options(parser)


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime-config",
        default="",
        metavar="G/V=true,…",
        help="API versions to serve or not, as resource.k8s.io/v1beta1=true or api/alpha=true",
    )
    parser.add_argument(
        "--kubelet-client-certificate",
        type=Path,
        metavar="FILE",
        help="what the server shows to nodes (default: a certificate of its own making)",
    )
    parser.add_argument("--kubelet-client-key", type=Path, metavar="FILE", help="the key of that certificate")
    parser.add_argument(
        "--kubelet-certificate-authority",
        type=Path,
        metavar="FILE",
        help="who signs nodes' serving certificates (default: the cluster's authority)",
    )
    parser.add_argument(
        "--max-requests-inflight", type=int, default=600, metavar="N", help="requests worked on at once (default 600)"
    )
    parser.add_argument("--audit-log-path", type=Path, metavar="FILE", help="write requests down, a JSON line each")
    parser.add_argument(
        "--audit-policy-file", type=Path, metavar="FILE", help="which requests, and how much (default: all metadata)"
    )


def _add_release_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubernetes-version", default="1.37", metavar="1.34…1.37", help="whose behaviour (default 1.37)"
    )
    parser.add_argument(
        "--feature-gates", default="", metavar="A=true,B=false", help="gates that differ from that release's"
    )


def _add_driver_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=int, default=8, metavar="N", help="simulated GPUs per node (default 8)")
    parser.add_argument("--driver-name", default="gpu.example.com", metavar="NAME", help="the example driver's name")
    parser.add_argument("--gpu-memory", default="80Gi", metavar="QUANTITY", help="memory of each GPU (default 80Gi)")
    parser.add_argument(
        "--gpu-attribute",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an attribute of each GPU (may be repeated)",
    )


def _add_part_options(parser: argparse.ArgumentParser, part: str) -> None:
    if part == "apiserver":
        _add_data_dir(parser)
        parser.add_argument(
            "--port", type=int, default=0, help="port on 127.0.0.1 (default: the last one used, else a free one)"
        )
        parser.add_argument("--store", default="sqlite", help="sqlite (default), memory, or etcd://HOST:PORT")
        _add_release_options(parser)
        _add_server_options(parser)
        return
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="the cluster (default: $KUBECONFIG, else ~/.kube/config)"
    )
    if part in ("scheduler", "controller-manager"):
        parser.add_argument("--leader-elect", action="store_true", help="work only while holding the lease")
        _add_release_options(parser)
    if part in ("node", "driver"):
        parser.add_argument("--node-name", required=True, metavar="NAME", help="the node")
        parser.add_argument(
            "--root-dir", type=Path, metavar="DIR", help="the kubelet's directory (default: in the data directory)"
        )
    if part == "node":
        _add_node_server_options(parser)
        parser.add_argument(
            "--runtime", choices=("auto", "oci", "process", "simulated"), default="auto", help="how containers run"
        )
        _add_release_options(parser)
    if part == "driver":
        parser.add_argument(
            "--cdi-dir",
            type=Path,
            metavar="DIR",
            help="where CDI documents are written (default: in the root directory)",
        )
        _add_driver_options(parser)


def _add_node_server_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", default="127.0.0.1", metavar="IP", help="where it listens (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port for logs and exec (default: a free one)")
    parser.add_argument(
        "--client-ca-file",
        type=Path,
        metavar="FILE",
        help="who signs the certificate that the API server shows (default: the kubeconfig's authority)",
    )
    parser.add_argument(
        "--tls-cert-file", type=Path, metavar="FILE", help="the node's serving certificate (default: one of its own)"
    )
    parser.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="the key of --tls-cert-file")


if __name__ == "__main__":
    sys.exit(main())
