"""Options of clusters and of all commands, each described once; parsers and command lines of child processes use it.

Standard library only: ``cathedra --help`` should cost what Python costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from cathedra.releases.table import DEFAULT_RELEASE, RELEASES


class CommandOption(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a command line."""

    name: str
    about: str
    type: type[int] | type[str] | type[Path] | Callable[[str], str] | None = str
    """None: the option takes no value and is on or off."""
    default: Any = None
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    repeatable: bool = False
    counts: bool = False
    """True if one value that is a number stands for that many, so that a file writes it as a number."""
    required: bool = False
    aliases: tuple[str, ...] = ()
    """Other ways to write it."""
    table: bool = False
    """True if the value is ``NAME=VALUE``, so that a file writes it as a table."""

    @property
    def attribute(self) -> str:
        """Name of the option in the parsed arguments."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def absent(self) -> Any:
        """Value of the option if it is not given."""
        if self.type is None:
            return False
        if self.repeatable:
            return [] if self.default is None else [self.default]
        return self.default

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the option to ``parser``, with its default."""
        self._add(parser, self.absent)

    def add_optional(self, parser: argparse.ArgumentParser) -> None:
        """Add the option to ``parser``. If it is not given, it is absent from the parsed arguments."""
        self._add(parser, argparse.SUPPRESS)

    def _add(self, parser: argparse.ArgumentParser, default: Any) -> None:
        if self.type is None:
            parser.add_argument(self.name, action="store_true", default=default, help=self.about)
        elif self.repeatable:
            parser.add_argument(
                self.name, type=self.type, action="append", default=default, metavar=self.metavar, help=self.about
            )
        else:
            # A letter comes first, as in -c/--cluster. Another long name must not: the first one names the attribute.
            letters = [one for one in self.aliases if not one.startswith("--")]
            parser.add_argument(
                *letters,
                self.name,
                *(one for one in self.aliases if one not in letters),
                type=self.type,
                default=default,
                metavar=self.metavar,
                choices=self.choices,
                required=self.required,
                help=self.about,
            )

    def words(self, arguments: argparse.Namespace) -> Iterator[str]:
        """Return the words that pass the value to another process; none if the option was not given."""
        value = getattr(arguments, self.attribute, None)
        if self.type is None:
            yield from (self.name,) if value else ()
            return
        for one in (value or ()) if self.repeatable else (value,):
            if one is not None:
                yield f"{self.name}={one.expanduser().absolute() if isinstance(one, Path) else one}"


def add_all(parser: argparse.ArgumentParser, options: Iterable[CommandOption]) -> None:
    """Add all options to ``parser``."""
    for option in options:
        option.add_to(parser)


def _profile(text: str) -> str:
    """Return a profile's name unchanged, and its file as an absolute path: a restart may happen elsewhere."""
    is_file = "/" in text or text.endswith((".yaml", ".yml"))
    return str(Path(text).expanduser().absolute()) if is_file else text


def release(text: str) -> str:
    """Return a Kubernetes release as ``1.N``; ``v1.N`` is the same one."""
    return text.removeprefix("v")


NODE_RUNTIMES: Final = ("auto", "cri", "oci", "process")
"""A node agent of its own runs containers. Simulated nodes are in the process of their cluster."""
RUNTIMES: Final = (*NODE_RUNTIMES, "simulated")

DATA_DIR: Final = CommandOption(
    name="--data-dir",
    type=Path,
    metavar="DIR",
    about="data directory of the cluster (default: $CATHEDRA_DATA_DIR, else below the state directory)",
)
SELECTED: Final = CommandOption(
    name="--cluster",
    aliases=("-c",),
    default="",
    metavar="NAME",
    about="name of the cluster (default: the one of kubectl's current context, else the only one that runs)",
)
"""Selects an existing cluster. Without it and ``--data-dir``, `cathedra.cluster.data.directories` has the rule."""
RELEASE: Final = (
    CommandOption(
        name="--kubernetes-version",
        type=release,
        default=DEFAULT_RELEASE,
        metavar=f"{RELEASES[0]}…{RELEASES[-1]}",
        about=f"Kubernetes release to behave as (default {DEFAULT_RELEASE})",
    ),
    CommandOption(
        name="--feature-gates",
        table=True,
        default="",
        metavar="A=true,B=false",
        about="feature gates that differ from the release's defaults",
    ),
)
CRI_SOCKET: Final = CommandOption(
    name="--cri-socket",
    default="",
    metavar="PATH",
    about="socket of containerd or CRI-O (default with --runtime cri: its default path); auto then tries it first",
)
POD_NETWORK: Final = CommandOption(
    name="--pod-network",
    default="",
    metavar="SUBNET",
    about="give each pod a network and an address of this subnet, as 10.88.0.0/16; needs root, ip, and crun or runc",
)

SERVER: Final = (
    DATA_DIR,
    CommandOption(
        name="--port", type=int, default=0, about="port of the API server (default: the previous one, else a free one)"
    ),
    CommandOption(
        name="--bind-address",
        default="127.0.0.1",
        metavar="IP",
        about="address the API server listens on (default 127.0.0.1: this machine only; 0.0.0.0: every address)",
    ),
    CommandOption(
        name="--advertise-address",
        default="",
        metavar="IP",
        about="address at which others reach it (default: the listening address, else this machine's)",
    ),
    CommandOption(
        name="--tls-san",
        repeatable=True,
        metavar="NAME|IP",
        about="another name or address for its certificate (repeatable)",
    ),
    CommandOption(
        name="--client-ca-file",
        type=Path,
        metavar="FILE",
        about="authorities whose client certificates it accepts in addition to the cluster's own",
    ),
    CommandOption(
        name="--store",
        default="sqlite",
        about="where objects are stored: sqlite (default), memory, or etcd://HOST:PORT",
    ),
    CommandOption(
        name="--accept-lost-writes",
        type=int,
        metavar="REVISION",
        about="open a database that has lost writes up to this acknowledged revision, for this start only",
    ),
    *RELEASE,
    CommandOption(
        name="--runtime-config",
        table=True,
        default="",
        metavar="G/V=true,…",
        about="API versions to serve or not, such as resource.k8s.io/v1beta1=true or api/alpha=true",
    ),
    CommandOption(
        name="--kubelet-client-certificate",
        type=Path,
        metavar="FILE",
        about="client certificate for connections to nodes (default: one that the server makes)",
    ),
    CommandOption(name="--kubelet-client-key", type=Path, metavar="FILE", about="key of that certificate"),
    CommandOption(
        name="--kubelet-certificate-authority",
        type=Path,
        metavar="FILE",
        about="authority that signs the serving certificates of nodes (default: the cluster's)",
    ),
    CommandOption(
        name="--apiserver-count",
        type=int,
        metavar="N",
        about="number of processes that answer requests on one port (default: 1; with cathedra up one for every four "
        "processors, at most 8)",
    ),
    CommandOption(
        name="--max-requests-inflight",
        type=int,
        default=600,
        metavar="N",
        about="number of requests executed at the same time (default 600)",
    ),
    CommandOption(
        name="--audit-log-path", type=Path, metavar="FILE", about="log requests to this file, one JSON line each"
    ),
    CommandOption(
        name="--audit-policy-file",
        type=Path,
        metavar="FILE",
        about="audit policy: which requests to log, at which level (default: metadata of all)",
    ),
)
"""Options of an API server on a data directory."""
LOGGING: Final = (
    CommandOption(
        name="--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        about="lowest level to log (default info)",
    ),
    CommandOption(
        name="--log-format", choices=("text", "json"), default="text", about="format of log lines (default text)"
    ),
)
"""Options of a command's log."""
DRIVER: Final = (
    CommandOption(
        name="--driver-profile",
        aliases=("--profile",),
        choices=("gpu", "mig", "net", "cpu", "test"),
        default="gpu",
        about="kind of the example driver's devices (default gpu)",
    ),
    CommandOption(
        name="--gpus",
        aliases=("--num-devices",),
        type=int,
        default=8,
        metavar="N",
        about="number of simulated GPUs (or other devices of the profile) per node (default 8)",
    ),
    CommandOption(
        name="--gpu-partitions",
        type=int,
        default=0,
        metavar="N",
        about="number of equal partitions of each GPU (default 0: not partitionable)",
    ),
    CommandOption(name="--allow-multiple-allocations", type=None, about="let several claims share each GPU"),
    CommandOption(
        name="--cpus-per-numa-node",
        type=int,
        default=4,
        metavar="N",
        about="number of CPUs of each simulated NUMA node (default 4)",
    ),
    CommandOption(
        name="--binding-conditions", type=None, about="bind pods only after the driver has declared their devices ready"
    ),
    CommandOption(name="--publish-device-status", type=None, about="report device status in the status of claims"),
    CommandOption(
        name="--driver-name",
        default="",
        metavar="NAME",
        about="name of the example driver (default: the profile's, such as gpu.example.com)",
    ),
    CommandOption(name="--gpu-memory", default="80Gi", metavar="QUANTITY", about="memory of each GPU (default 80Gi)"),
    CommandOption(
        name="--gpu-attribute",
        table=True,
        repeatable=True,
        metavar="NAME=VALUE",
        about="additional attribute of each GPU (repeatable)",
    ),
)
"""Options of the example driver's devices."""
CLUSTER: Final = (
    CommandOption(
        name="--nodes",
        repeatable=True,
        counts=True,
        default="1",
        metavar="N|GROUP=N[:PROFILE]",
        about="number of nodes (default 1); or a group of nodes, with the devices of a profile or without any, such as "
        "gpu=4:h100-8 or cpu=2 (repeatable)",
    ),
    CommandOption(
        name="--from-dump",
        type=Path,
        metavar="PATH",
        about="with --runtime simulated, the nodes, devices and workloads of a dump (kubectl get … -o yaml); workloads "
        "are created at the first start and scheduled anew",
    ),
    *SERVER,
    CommandOption(
        name="--runtime",
        choices=RUNTIMES,
        default="auto",
        about="how containers run: cri (containerd, CRI-O), oci (crun or runc, needs root), process, simulated; "
        "auto selects the first that works",
    ),
    # Of a driver alone --profile is the example driver's; of a cluster it is that of its nodes.
    *(replace(option, aliases=()) if "--profile" in option.aliases else option for option in DRIVER),
    CommandOption(
        name="--profile",
        type=_profile,
        default="",
        metavar="NAME|FILE",
        about="give nodes a vendor's devices instead of the example driver's, such as h100-8 (list: cathedra profiles)",
    ),
    CRI_SOCKET,
    POD_NETWORK,
    CommandOption(
        name="--scheduler-config",
        type=Path,
        metavar="FILE",
        about="KubeSchedulerConfiguration of the cluster's scheduler (profiles, plugins)",
    ),
    CommandOption(
        name="--fail",
        repeatable=True,
        metavar="PROFILE[=SHARE]",
        about="with --runtime simulated, make nodes fail: flapping, slow-prepare or dying-devices; SHARE is the share "
        "of nodes that fail (default: all; repeatable)",
    ),
    *LOGGING,
    CommandOption(name="--no-merge", type=None, about="do not add a context to your kubeconfig"),
)
"""Options of a whole cluster."""
NOT_REMEMBERED: Final = frozenset(("--data-dir", "--accept-lost-writes", "--no-merge"))
"""Options of a cluster that concern one start alone."""
REMEMBERED: Final = tuple(option for option in CLUSTER if option.name not in NOT_REMEMBERED)
"""Options of a cluster that its data directory keeps."""
CONFIG: Final = CommandOption(
    name="--config", type=Path, metavar="FILE", about="description of a cluster, in the format of DIR/cluster.yaml"
)
