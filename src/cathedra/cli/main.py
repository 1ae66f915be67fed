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
from typing import TYPE_CHECKING, Final

from cathedra import __version__
from cathedra.cli.dra import main as dra
from cathedra.cli.options import (
    CDI_DIR,
    CLASSIC_CONTROLLER,
    CLASSIC_RELEASE,
    CLUSTER,
    COMPONENT,
    CONFIG,
    CONTROLLERS,
    DATA_DIR,
    DRIVER,
    DRIVER_CONTROL,
    DRIVER_PROCESS,
    DRIVERNAME,
    ENROLMENT,
    KUBECONFIG,
    LOGGING,
    NODE,
    NODE_AGENT,
    RELEASE,
    SCHEDULER,
    SERVER,
    CommandOption,
    add_all,
)
from cathedra.cli.parsing import EXIT_USAGE, Parser
from cathedra.cli.terminal import printable_output

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[Parser]

__all__ = ["main"]

_PARTS: Final[dict[str, tuple[str, tuple[CommandOption, ...]]]] = {
    "apiserver": ("the API server alone", SERVER),
    "scheduler": ("the scheduler alone", (KUBECONFIG, *SCHEDULER, *COMPONENT, *RELEASE)),
    "controller-manager": ("the controllers alone", (KUBECONFIG, *CONTROLLERS, *COMPONENT, *RELEASE)),
    "node": ("a node agent alone", (KUBECONFIG, *NODE, *NODE_AGENT, *RELEASE)),
    "driver": ("a driver alone: yours or the example", (KUBECONFIG, *NODE, CDI_DIR, *DRIVER_PROCESS, *DRIVER)),
}

_CLASSIC_PROGRAMS: Final[dict[str, tuple[str, tuple[CommandOption, ...]]]] = {
    "controller": ("allocates claims", (KUBECONFIG, DRIVERNAME, CLASSIC_RELEASE, *CLASSIC_CONTROLLER)),
    "kubelet-plugin": ("prepares claims on a node", (KUBECONFIG, DRIVERNAME, CLASSIC_RELEASE, *NODE, CDI_DIR)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit code."""
    with printable_output():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    # gRPC would prepare to be used on both sides of a fork, and complain in vain: here every fork is followed by exec.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        words = sys.argv[1:] if argv is None else list(argv)
        arguments = _parser(words).parse_args(words)
        if getattr(arguments, "dra", False):
            return dra.run(arguments, "cathedra dra")
        module = importlib.import_module(f"cathedra.cli.{arguments.command}")
        return int(module.run(arguments))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        # The module knows every part's errors; a call that works out need not load them.
        from cathedra.cli.errors import error_line

        line = error_line(error)
        if line is None:
            raise
        print(f"cathedra: {line}", file=sys.stderr)
        return EXIT_USAGE


_CLUSTERS: Final = {
    "down": "stop a cluster; up starts it again as it was",
    "delete": "stop a cluster and remove everything of it",
    "kubeconfig": "print the kubeconfig of a cluster, or of one of its parts",
}


_BACKUPS: Final = {
    "backup": "write a cluster's objects, keys and description to a file, while it runs",
    "restore": "bring a backup back; a cluster that runs is stopped for it and started again",
}


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the cluster (default: cathedra)")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="for people or for programs")


def _add_profiles(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """``profiles [NAME|FILE]``, and ``profiles import``, whose word would else be taken for a name."""
    parser.set_defaults(command="profiles")
    if list(words[:2]) != ["profiles", "import"]:
        parser.description = "List the profiles, or show one. Make one of a node in a dump: cathedra profiles import -h"
        parser.add_argument("profile", nargs="?", default="", metavar="NAME|FILE", help="show this one")
        parser.add_argument(
            "-o", "--output", choices=("table", "json", "yaml"), default="table", help="for people or for programs"
        )
        return
    parser.description = "Make a profile of a node in a dump, without what identifies the machine."
    importing = parser.add_subparsers(metavar="import", required=True).add_parser("import")
    importing.add_argument(
        "dump",
        nargs="+",
        metavar="DUMP",
        help="a file, directory or .tar.gz of kubectl get … -o yaml; - is standard input",
    )
    importing.add_argument("--node", required=True, metavar="NAME", help="which node")
    importing.add_argument("--name", default="", metavar="NAME", help="of the profile (default: the file's)")
    importing.add_argument("-o", "--file", type=Path, metavar="FILE", help="where it is written (default: printed)")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="cathedra",
        description="Kubernetes Dynamic Resource Allocation, whole: a cluster with devices, to use with kubectl.",
    )
    parser.add_argument("--version", action="version", version=f"cathedra {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_starting(commands)
    _add_keeping(commands)
    _add_looking(commands)
    _add_tools(commands, words)
    _add_driver_tools(commands, words)
    _add_programs(commands)
    return parser


def _add_starting(commands: _Commands) -> None:
    up = commands.add_parser("up", help="start a cluster (Ctrl-C stops it, unless --detach)")
    up.set_defaults(command="up")
    _add_name(up)
    for option in (*CLUSTER, CONFIG):
        option.add_optional(up)
    up.add_argument("--detach", action="store_true", help="return when the nodes are ready and their slices published")
    up.add_argument("--report-fd", type=int, help=argparse.SUPPRESS)

    demo = commands.add_parser("demo", help="a cluster with simulated GPUs: who holds them, who waits and why")
    demo.set_defaults(command="demo")
    demo.add_argument("--keep", action="store_true", help="leave the cluster running, under the name demo")
    DATA_DIR.add_to(demo)
    demo.add_argument("--runtime", choices=("auto", "oci", "process"), default="auto", help="how containers run")


def _add_keeping(commands: _Commands) -> None:
    for verb, purpose in _CLUSTERS.items():
        one = commands.add_parser(verb, help=purpose)
        one.set_defaults(command=verb)
        _add_name(one)
        DATA_DIR.add_to(one)
        if verb == "kubeconfig":
            one.add_argument(
                "--for",
                dest="part",
                default="",
                metavar="PART",
                help="admin (default), scheduler, controller-manager, node:NAME or driver:NAME@NODE",
            )
            one.add_argument("--server", default="", metavar="URL", help="where the part finds the API server")

    for verb, purpose in _BACKUPS.items():
        one = commands.add_parser(verb, help=purpose)
        one.set_defaults(command="backup", verb=verb)
        one.add_argument("file", metavar="FILE", type=Path, help="the backup")
        one.add_argument("-c", "--cluster", dest="name", metavar="NAME", help="the cluster (default: cathedra)")
        DATA_DIR.add_to(one)

    verify = commands.add_parser("verify", help="read all objects of a cluster's database and compare their checksums")
    verify.set_defaults(command="verify")
    _add_name(verify)
    DATA_DIR.add_to(verify)
    verify.add_argument(
        "--remove-damaged", action="store_true", help="remove damaged rows of a cluster that is stopped"
    )
    _add_output(verify)

    enrol = commands.add_parser("enrol", help="write the files with which a node joins a cluster")
    enrol.set_defaults(command="enrol")
    add_all(enrol, ENROLMENT)


def _add_looking(commands: _Commands) -> None:
    listing = commands.add_parser("list", help="your clusters, running and stopped")
    listing.set_defaults(command="list")
    listing.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="for people or for programs"
    )

    status = commands.add_parser("status", help="what runs: nodes, devices, claims, pods")
    status.set_defaults(command="status")
    _add_name(status)
    DATA_DIR.add_to(status)
    status.add_argument("-n", "--namespace", default="", help="claims and pods of this namespace only")
    status.add_argument("-w", "--watch", action="store_true", help="show it again after every change")
    _add_output(status)

    logs = commands.add_parser("logs", help="what a cluster in the background has said")
    logs.set_defaults(command="logs")
    logs.add_argument("part", nargs="?", metavar="PART|NODE", help="scheduler, node, node-0 …; or a library's name")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as more is said")
    logs.add_argument("-c", "--cluster", dest="name", metavar="NAME", help="the cluster (default: cathedra)")
    DATA_DIR.add_to(logs)


def _add_tools(commands: _Commands, words: Sequence[str]) -> None:
    """Of tools with options of their own, only one that is called loads its module."""
    _add_profiles(
        commands.add_parser("profiles", help="kinds of nodes with vendors' devices, for up and simulate"), words
    )

    questions = commands.add_parser("dra", help="questions about devices: explain, devices … (as kubectl dra)")
    if words[:1] == ["dra"]:
        dra.add_commands(questions, words)

    devices = commands.add_parser(
        "cdi", help="what the CDI documents of this machine say: list, validate, resolve, apply"
    )
    if words[:1] == ["cdi"]:
        importlib.import_module("cathedra.cli.cdi").add(devices)


def _add_driver_tools(commands: _Commands, words: Sequence[str]) -> None:
    control = commands.add_parser("driver-control", help="taints, health and faults for an example driver that runs")
    control.set_defaults(command="drivercontrol")
    add_all(control, DRIVER_CONTROL)
    control.add_argument(
        "order",
        nargs="+",
        metavar="ORDER",
        help="taint DEVICE KEY=VALUE:EFFECT, untaint DEVICE KEY, health DEVICE Healthy|Unhealthy|Unknown [MESSAGE], "
        "fail|block|release CALL (NodePrepareResources, NodeUnprepareResources, GetInfo, NotifyRegistrationStatus, "
        "NodeWatchResources), binding ready|hold|fail, calls, rpcs [METHOD], reset, show",
    )

    manifest = commands.add_parser("driver-manifest", help="print what installs a driver of yours in a cluster")
    manifest.set_defaults(command="drivermanifest")
    manifest.add_argument("module", metavar="MODULE:DRIVER", help="a class or a function that makes a driver")
    manifest.add_argument("--image", required=True, help="where the module is in the working directory")
    manifest.add_argument("--namespace", default="dra-drivers", help="of its pods (default: dra-drivers)")

    webhook = commands.add_parser("driver-webhook", help="refuse claims with parameters that a driver cannot use")
    webhook.set_defaults(command="driverwebhook")
    if words[:1] == ["driver-webhook"]:
        importlib.import_module("cathedra.cli.driverwebhook").add(webhook)

    fabric = commands.add_parser("driver-fabric", help="attach devices of a fabric to the nodes that use them")
    fabric.set_defaults(command="driverfabric")
    if words[:1] == ["driver-fabric"]:
        importlib.import_module("cathedra.cli.driverfabric").add(fabric)

    check = commands.add_parser("driver-check", help="does a driver keep the contract? any driver, in any language")
    check.set_defaults(command="drivercheck")
    if words[:1] == ["driver-check"]:
        importlib.import_module("cathedra.cli.drivercheck").add(check)


def _add_programs(commands: _Commands) -> None:
    classic = commands.add_parser("classic-test-driver", help="the test driver of 1.26 to 1.31, whose drivers allocate")
    programs = classic.add_subparsers(title="programs", metavar="PROGRAM", required=True)
    for program, (about, options) in _CLASSIC_PROGRAMS.items():
        one = programs.add_parser(program, help=about)
        one.set_defaults(command="classictestdriver", program=program)
        add_all(one, (*options, *LOGGING))

    for part, (about, options) in _PARTS.items():
        command = commands.add_parser(part, help=about)
        command.set_defaults(command="parts", part=part)
        add_all(command, (*options, *LOGGING))


if __name__ == "__main__":
    sys.exit(main())
