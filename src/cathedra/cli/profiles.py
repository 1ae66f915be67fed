"""``cathedra profiles``: the kinds of nodes that can be simulated, and new ones from dumps of real clusters."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cathedra.profiles import HardwareProfile, expanded_pools, load_profile, profile_names
from cathedra.profiles.loading import profile_document, profile_yaml


def run(arguments: argparse.Namespace) -> int:
    """List the profiles, show one, or make one of a node in a dump."""
    if getattr(arguments, "dump", None):
        return _import(arguments)
    profiles = [load_profile(arguments.profile)] if arguments.profile else list(map(load_profile, profile_names()))
    if arguments.output == "json":
        items = [_summary(profile) for profile in profiles]
        print(json.dumps({"apiVersion": "cathedra.dev/v1", "kind": "ProfileList", "items": items}, indent=2))
    elif arguments.output == "yaml":
        sys.stdout.write("---\n".join(profile_yaml(profile).decode() for profile in profiles))
    elif arguments.profile:
        print("\n".join(_lines(profiles[0])))
    else:
        _print_table(profiles)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    # start-up time: for modules that import
    from cathedra.files.atomic import write_durable
    from cathedra.insight.clusterimport import imported_profile
    from cathedra.insight.reading.dumps import read_dump

    given = arguments.dump
    paths: Any = [Path(path) for path in given] if len(given) > 1 else Path(given[0])
    file: Path | None = arguments.file
    profile, left_out = imported_profile(
        read_dump(paths), arguments.node, arguments.name or (file.stem if file else "")
    )
    for one in left_out:
        print(f"left out: {one}", file=sys.stderr)
    text = profile_yaml(profile)
    if file is None:
        sys.stdout.write(text.decode())
        return 0
    write_durable(file, text)
    print(f"{profile.description.removeprefix('imported: ')}; use it with: cathedra up --profile {_word(file)}")
    return 0


def _word(file: Path) -> str:
    """Return the file's path in a form that is not mistaken for a name."""
    return str(file) if "/" in str(file) or file.suffix in (".yaml", ".yml") else f"./{file}"


def _counts(profile: HardwareProfile) -> dict[str, int]:
    counts: dict[str, int] = {}
    for pool in expanded_pools(profile, "node"):
        counts[pool.driver] = counts.get(pool.driver, 0) + len(pool.devices)
    return counts


def _print_table(profiles: list[HardwareProfile]) -> None:
    rows = [("NAME", "DEVICES", "DRIVER", "DESCRIPTION")]
    for profile in profiles:
        text = profile.description + (", in all MIG partitions" if profile.partitioned else "")
        for number, (driver, count) in enumerate(_counts(profile).items()):
            rows.append(("" if number else profile.name, str(count), driver, "" if number else text))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _lines(profile: HardwareProfile) -> Iterator[str]:
    yield f"{profile.name}: {profile.description}" + (", in all MIG partitions" if profile.partitioned else "")
    for pool in expanded_pools(profile, "NODE"):
        yield ""
        yield f"{len(pool.devices)} devices of {pool.driver}, pool {pool.name}"
        if pool.counter_sets:
            yield f"  {len(pool.counter_sets)} counter sets of {', '.join(pool.counter_sets[0].counters)}"
        first = pool.devices[0]
        yield f"  as {first.name}:"
        for name, attribute in first.attributes.items():
            (value,) = (one for one in _plain(attribute).values())
            yield f"    {name} = {value}"
        for name, capacity in first.capacity.items():
            yield f"    capacity {name} = {capacity.value}"
    for title, words in (
        ("classes", [one.metadata.name for one in profile.device_classes]),
        ("follows", [" ".join(filter(None, (one.driver, one.version, one.source))) for one in profile.follows]),
        ("figures from", profile.sources),
        ("not confirmed", profile.unconfirmed),
    ):
        if words:
            yield ""
            yield from (f"{title}: {word}" for word in words)


def _plain(attribute: Any) -> dict[str, Any]:
    # start-up time: only where one is shown
    from cathedra.api.struct import to_dict

    plain: dict[str, Any] = to_dict(attribute)
    return plain


def _summary(profile: HardwareProfile) -> dict[str, Any]:
    document = profile_document(profile)["spec"]
    kept = ("description", "follows", "sources", "unconfirmed", "node", "deviceClasses")
    return {
        "name": profile.name,
        "devices": _counts(profile),
        **{key: document[key] for key in kept if key in document},
    }
