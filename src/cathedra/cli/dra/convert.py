"""``kubectl dra convert``: manifests in another version, or from device plugins."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.terminal import exact, print_data

if TYPE_CHECKING:
    from cathedra.insight.conversion.convert import Conversion


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="manifests: files, directories, or - for standard input"
    )
    parser.add_argument(
        "--to", choices=("v1", "v1beta2", "v1beta1"), help="version of resource.k8s.io to convert to (default: v1)"
    )
    parser.add_argument(
        "--from-device-plugin",
        action="store_true",
        help="replace extended resources, such as nvidia.com/gpu: 2, in pods and workloads by claims",
    )
    parser.add_argument(
        "--resource",
        action="append",
        default=[],
        metavar="NAME",
        help="with --from-device-plugin: replace this resource only (repeatable)",
    )
    parser.add_argument("-i", "--in-place", action="store_true", help="write the files instead of printing them")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="output format (default text)")


def run(arguments: argparse.Namespace) -> int:
    """Print or write the manifests. Changes and unknown parts are listed on standard error."""
    if arguments.in_place and "-" in arguments.files:
        raise InvalidInput("standard input cannot be written in place")
    if arguments.from_device_plugin and arguments.to:
        raise InvalidInput("--from-device-plugin makes objects of v1; convert them with --to in a second step")
    if arguments.resource and not arguments.from_device_plugin:
        raise InvalidInput("--resource goes with --from-device-plugin")
    # Imported late: a wrong call need not wait for the kinds.
    from cathedra.insight.conversion.convert import convert, convert_device_plugin

    paths = [Path(name) for name in arguments.files]
    if arguments.from_device_plugin:
        found = convert_device_plugin(paths, arguments.resource)
    else:
        found = convert(paths, arguments.to or "v1")
    if arguments.in_place:
        _write(found)
    if arguments.output == "json":
        print_data(found.to_dict(), "json")
    elif not arguments.in_place:
        _print(found)
    for file in found.files:
        for note in file.notes:
            print(f"{file.file}: note: {note}", file=sys.stderr)
    return 0


def _print(found: Conversion) -> None:
    """Write the texts to standard output one after the other, as documents of one YAML stream."""
    output = exact(sys.stdout)
    for number, file in enumerate(found.files):
        if number and not file.text.startswith("---"):
            output.write("---\n")
        output.write(file.text)
        if not file.text.endswith("\n") and number + 1 < len(found.files):
            output.write("\n")


def _write(found: Conversion) -> None:
    """Replace the files that differ, and print their names."""
    # start-up time: with the option alone
    from cathedra.files.atomic import write_atomic

    changed = [(file, _target(Path(file.file))) for file in found.files if file.changed]
    for file, path in changed:
        write_atomic(path, file.text.encode(), mode=path.stat().st_mode & 0o7777)
        for change in file.changes:
            print(f"{file.file}: {change}", file=sys.stderr)


def _target(path: Path) -> Path:
    """Return the file that is written for ``path``, which may be a link within its folder.

    Raises:
        InvalidInput: it is a link out of its folder: a checkout of foreign manifests could name any file of the user.
    """
    target = path.resolve()
    if not target.is_relative_to(path.parent.resolve()):
        raise InvalidInput(f"{path}: it is a link to {target}, outside its folder; nothing was written")
    return target
