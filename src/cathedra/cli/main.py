"""The ``cathedra`` command: its parser, and the dispatch to the modules of its commands.

Each command is a module of its own, imported only when it is called: ``cathedra --help`` should cost what Python costs.
Exit codes: 0 yes, 1 no or findings, 2 a wrong call or an error of input and output.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cathedra import __version__
from cathedra.cli.dra import main as dra
from cathedra.cli.options import (
    CLUSTER,
    CONFIG,
    DATA_DIR,
    DRIVER,
    LOGGING,
    RELEASE,
    SELECTED,
    SERVER,
    CommandOption,
    add_all,
)
from cathedra.cli.partoptions import (
    ADVISOR,
    CDI_DIR,
    CLASSIC_COMMON,
    CLASSIC_CONTROLLER,
    CLASSIC_RELEASE,
    COMPONENT,
    CONTROLLERS,
    DRIVER_CONTROL,
    DRIVER_NODE,
    DRIVER_PROCESS,
    DRIVERNAME,
    ENROLMENT,
    KUBECONFIG,
    NODE,
    NODE_AGENT,
    SCHEDULER,
    go_words,
)
from cathedra.cli.terminal import EXIT_USAGE, Parser, printable_output

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[Parser]

_PARTS: Final[dict[str, tuple[str, tuple[CommandOption, ...]]]] = {
    "apiserver": ("run an API server alone", SERVER),
    "scheduler": ("run a scheduler alone", (KUBECONFIG, *SCHEDULER, *COMPONENT, *RELEASE)),
    "controller-manager": ("run the controllers alone", (KUBECONFIG, *CONTROLLERS, *COMPONENT, *RELEASE)),
    "advisor": ("explain why pods wait, export free capacity, check the scheduler", (KUBECONFIG, *ADVISOR, *COMPONENT)),
    "node": ("run a node agent alone", (KUBECONFIG, *NODE, *NODE_AGENT, *RELEASE)),
    "driver": (
        "run a driver alone: yours or the example driver",
        (KUBECONFIG, *DRIVER_NODE, CDI_DIR, *DRIVER_PROCESS, *DRIVER),
    ),
}

_CLASSIC_PROGRAMS: Final[dict[str, tuple[str, tuple[CommandOption, ...]]]] = {
    "controller": ("allocate claims", (KUBECONFIG, DRIVERNAME, CLASSIC_RELEASE, *CLASSIC_CONTROLLER)),
    "kubelet-plugin": (
        "prepare claims on a node",
        (KUBECONFIG, DRIVERNAME, CLASSIC_RELEASE, *DRIVER_NODE, SELECTED, DATA_DIR, CDI_DIR),
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit code."""
    with printable_output():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    # gRPC would prepare to be used on both sides of a fork, and complain in vain: here every fork is followed by exec.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        words = _words(sys.argv[1:] if argv is None else list(argv))
        if words[:1] == ["__complete"]:
            from cathedra.cli.completion import print_candidates  # start-up time: for shells alone

            return print_candidates(_parser(words[1:]), words[1:])
        parser = _parser(words)
        if words in ([], ["dra"], ["cdi"]):
            return _help(parser, words)
        arguments = parser.parse_args(words)
        if getattr(arguments, "dra", False):
            return dra.run(arguments, "cathedra dra")
        module, _, function = str(arguments.command).partition(":")
        return int(getattr(importlib.import_module(f"cathedra.cli.{module}"), function or "run")(arguments))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        # Loaded here: a call that works out does not need it.
        from cathedra.cli.errors import error_line

        line = error_line(error)
        if line is None:
            raise
        print(f"cathedra: {line}", file=sys.stderr)
        return EXIT_USAGE


def _words(given: Sequence[str]) -> list[str]:
    """Return the words of a command line; those of a part may be a Kubernetes program's (`partoptions.go_words`)."""
    if not given or given[0] not in _PARTS:
        return list(given)
    words, ignored = go_words(given[0], (*_PARTS[given[0]][1], *LOGGING), given[1:])
    if ignored:
        flags = ", ".join(dict.fromkeys(ignored))
        print(f"cathedra {given[0]}: warning: without meaning here and ignored: {flags}", file=sys.stderr)
    return [given[0], *words]


def _help(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Print the help of a command with sub-commands, as kubectl does without arguments. Return 0."""
    with contextlib.suppress(SystemExit):
        parser.parse_args([*words, "--help"])
    return 0


_CLUSTERS: Final = {
    "down": ("cluster.existing:down", "stop a cluster; up starts it again with the same options"),
    "delete": ("cluster.existing:delete", "stop a cluster and remove all of its data"),
    "kubeconfig": ("cluster.existing:print_kubeconfig", "print the kubeconfig of a cluster, or of one of its parts"),
}


_BACKUPS: Final = {
    "backup": "back up the objects, keys and description of a running cluster to a file",
    "restore": "restore a backup; a running cluster is stopped and started again",
}


def _add_selection(parser: argparse.ArgumentParser, *, name: bool = True) -> None:
    """Add the options that select an existing cluster (`cathedra.cli.configuration.selected_data`)."""
    if name:
        parser.add_argument("name", nargs="?", metavar="NAME", help="name of the cluster (default: as --cluster)")
    SELECTED.add_to(parser)
    DATA_DIR.add_to(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="output format (default table)"
    )


def _add_profiles(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """``profiles [NAME|FILE]``, and ``profiles import``, whose word would else be taken for a name."""
    parser.set_defaults(command="profiles")
    if list(words[:2]) != ["profiles", "import"]:
        parser.description = (
            "List the profiles, or show one. To make one from a node in a dump: cathedra profiles import -h"
        )
        parser.add_argument("profile", nargs="?", default="", metavar="NAME|FILE", help="profile to show")
        parser.add_argument(
            "-o", "--output", choices=("table", "json", "yaml"), default="table", help="output format (default table)"
        )
        return
    parser.description = "Make a profile from a node in a dump, without data that identifies the machine."
    importing = parser.add_subparsers(metavar="import", required=True).add_parser("import")
    importing.add_argument(
        "dump",
        nargs="+",
        metavar="DUMP",
        help="output of kubectl get … -o yaml: a file, directory or archive (.tar.gz, .zip), or - for standard input",
    )
    importing.add_argument("--node", required=True, metavar="NAME", help="name of the node")
    importing.add_argument("--name", default="", metavar="NAME", help="name of the profile (default: that of the file)")
    importing.add_argument("-o", "--file", type=Path, metavar="FILE", help="file to write (default: standard output)")


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="cathedra",
        description="Run clusters with Kubernetes Dynamic Resource Allocation (DRA), or single parts of one.",
    )
    parser.add_argument("--version", action="version", version=_version() if "--version" in words else "")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_starting(commands)
    _add_keeping(commands)
    _add_looking(commands)
    _add_tools(commands, words)
    _add_driver_tools(commands, words)
    _add_programs(commands)
    return parser


def _version() -> str:
    # start-up time: only this option needs it
    from cathedra.cel.regex import EngineMissing, engine_name

    try:
        return f"cathedra {__version__} (regular expressions: {engine_name()})"
    except EngineMissing as error:
        return f"cathedra {__version__} (regular expressions: {error})"


def _add_starting(commands: _Commands) -> None:
    up = commands.add_parser("up", help="start a cluster (Ctrl-C stops it, unless --detach)")
    up.set_defaults(command="cluster.up")
    up.add_argument("name", nargs="?", metavar="NAME", help="name of the cluster (default: cathedra)")
    for option in (*CLUSTER, CONFIG):
        option.add_optional(up)
    up.add_argument(
        "--detach",
        action="store_true",
        help="run in the background; return when nodes are ready and their slices are published",
    )
    up.add_argument("--report-fd", type=int, help=argparse.SUPPRESS)

    demo = commands.add_parser(
        "demo", help="demonstrate a cluster with simulated GPUs: sharing, partitions, a pending job and the reason"
    )
    demo.set_defaults(command="cluster.demo")
    demo.add_argument("--keep", action="store_true", help="leave the cluster running, under the name demo")
    DATA_DIR.add_to(demo)
    demo.add_argument("--runtime", choices=("auto", "oci", "process"), default="auto", help="how containers run")


def _add_keeping(commands: _Commands) -> None:
    for verb, (command, purpose) in _CLUSTERS.items():
        one = commands.add_parser(verb, help=purpose)
        one.set_defaults(command=command)
        _add_selection(one)
        if verb == "kubeconfig":
            one.add_argument(
                "--for",
                dest="part",
                default="",
                metavar="PART",
                help="admin (default), scheduler, controller-manager, node:NAME or driver:NAME@NODE",
            )
            one.add_argument(
                "--server",
                action="append",
                default=[],
                metavar="URL",
                help="address at which the part reaches the API server (repeatable: parts of Cathedra change to "
                "another one when a server fails, kubectl uses the first)",
            )

    for verb, purpose in _BACKUPS.items():
        one = commands.add_parser(verb, help=purpose)
        one.set_defaults(command=f"cluster.backup:{verb}")
        one.add_argument("file", metavar="FILE", type=Path, help="backup file")
        _add_selection(one, name=False)

    verify = commands.add_parser("verify", help="verify the checksums of all objects in a cluster's database")
    verify.set_defaults(command="cluster.backup:verify")
    _add_selection(verify)
    verify.add_argument(
        "--remove-damaged", action="store_true", help="remove damaged rows (the cluster must be stopped)"
    )
    _add_output(verify)

    enrol = commands.add_parser("enrol", help="write the files that a node needs to join a cluster")
    enrol.set_defaults(command="cluster.existing:enrol")
    add_all(enrol, ENROLMENT)


def _add_looking(commands: _Commands) -> None:
    listing = commands.add_parser("list", help="list your clusters, running and stopped")
    listing.set_defaults(command="cluster.existing:list_clusters")
    listing.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="output format (default table)"
    )

    status = commands.add_parser("status", help="show nodes, devices, claims, pods, and why pods are pending")
    status.set_defaults(command="cluster.status")
    _add_selection(status)
    status.add_argument("-n", "--namespace", default="", help="show claims and pods of this namespace only")
    status.add_argument("-w", "--watch", action="store_true", help="refresh after every change")
    _add_output(status)

    logs = commands.add_parser("logs", help="print the log of a cluster in the background")
    logs.set_defaults(command="cluster.existing:logs")
    logs.add_argument("part", nargs="?", metavar="PART|NODE", help="part, node or library: scheduler, node, node-0 …")
    logs.add_argument("-f", "--follow", action="store_true", help="print new lines as they are logged")
    _add_selection(logs, name=False)


def _add_tools(commands: _Commands, words: Sequence[str]) -> None:
    """Add tools with options of their own. Only the one that is called loads its module."""
    _add_profiles(
        commands.add_parser("profiles", help="list or show profiles: nodes with vendors' devices, for up and simulate"),
        words,
    )

    completion = commands.add_parser("completion", help="print the completion script of a shell")
    completion.set_defaults(command="completion")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="source <(cathedra completion bash)")

    questions = commands.add_parser("dra", help="inspect devices and claims: explain, devices … (same as kubectl dra)")
    if words[:1] == ["dra"]:
        dra.add_commands(questions, words)

    agents = commands.add_parser("mcp", help="answer questions of agents about a cluster: a read-only MCP server")
    agents.set_defaults(command="mcp")
    if words[:1] == ["mcp"]:
        importlib.import_module("cathedra.cli.mcp").add(agents)

    faults = commands.add_parser(
        "simulate-faults", help="simulate clusters with faults in virtual time and check that invariants hold"
    )
    faults.set_defaults(command="simulatefaults")
    if words[:1] == ["simulate-faults"]:
        importlib.import_module("cathedra.cli.simulatefaults").add(faults)

    devices = commands.add_parser(
        "cdi", help="inspect the CDI documents of this machine: list, validate, resolve, apply"
    )
    if words[:1] == ["cdi"]:
        importlib.import_module("cathedra.cli.cdi").add(devices)


def _add_driver_tools(commands: _Commands, words: Sequence[str]) -> None:
    control = commands.add_parser("driver-control", help="set taints, health and faults of a running example driver")
    control.set_defaults(command="driver.control")
    add_all(control, DRIVER_CONTROL)
    control.add_argument(
        "order",
        nargs="+",
        metavar="ORDER",
        help="taint DEVICE KEY=VALUE:EFFECT, untaint DEVICE KEY, health DEVICE Healthy|Unhealthy|Unknown [MESSAGE], "
        "fail|block|release CALL (NodePrepareResources, NodeUnprepareResources, GetInfo, NotifyRegistrationStatus, "
        "NodeWatchResources), binding ready|hold|fail, calls, rpcs [METHOD], reset, show",
    )

    new = commands.add_parser("driver-new", help="write a new driver: code, tests, manifest, README")
    new.set_defaults(command="driver.authoring:new")
    new.add_argument("name", metavar="NAME", help="name of the driver, in a domain that you own: lamp.example.com")
    new.add_argument(
        "--directory", type=Path, metavar="DIR", help="directory to write (default: the first part of the name)"
    )

    manifest = commands.add_parser("driver-manifest", help="print the manifests that install your driver in a cluster")
    manifest.set_defaults(command="driver.authoring:manifest")
    manifest.add_argument("module", metavar="MODULE:DRIVER", help="driver: a class, or a function that returns one")
    manifest.add_argument("--image", required=True, help="image that has the module in its working directory")
    manifest.add_argument("--namespace", default="dra-drivers", help="namespace of its pods (default: dra-drivers)")

    webhook = commands.add_parser("driver-webhook", help="refuse claims with parameters that a driver cannot use")
    webhook.set_defaults(command="driver.programs:webhook")
    if words[:1] == ["driver-webhook"]:
        importlib.import_module("cathedra.cli.driver.programs").add_webhook(webhook)

    fabric = commands.add_parser("driver-fabric", help="attach devices of a fabric to the nodes that use them")
    fabric.set_defaults(command="driver.programs:fabric")
    if words[:1] == ["driver-fabric"]:
        importlib.import_module("cathedra.cli.driver.programs").add_fabric(fabric)

    check = commands.add_parser(
        "driver-check", help="test whether a driver, in any language, keeps the kubelet's contract"
    )
    check.set_defaults(command="driver.check")
    if words[:1] == ["driver-check"]:
        importlib.import_module("cathedra.cli.driver.check").add(check)


def _add_programs(commands: _Commands) -> None:
    classic = commands.add_parser(
        "classic-test-driver", help="run the test driver of 1.26 to 1.31, where drivers allocate"
    )
    add_all(classic, CLASSIC_COMMON)
    programs = classic.add_subparsers(title="programs", metavar="PROGRAM", required=True)
    for program, (about, options) in _CLASSIC_PROGRAMS.items():
        one = programs.add_parser(program, help=about)
        one.set_defaults(command="classictestdriver", program=program)
        for option in (*options, *CLASSIC_COMMON[1:], *LOGGING):
            # Given before the program's name it must not be overwritten by the default of the second place.
            (option.add_optional if option in CLASSIC_COMMON else option.add_to)(one)

    for part, (about, options) in _PARTS.items():
        command = commands.add_parser(part, help=about)
        command.set_defaults(command="parts", part=part)
        add_all(command, (*options, *LOGGING))


if __name__ == "__main__":
    sys.exit(main())
