"""Fields of API types: their Go types, protobuf numbers and the tags that decide defaults, merging and validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cathedra.api import facts
from cathedra.api.facts import GROUP_NAMES
from cathedra.releases.fields import is_known
from cathedra.releases.served import registered_group_versions
from tools.follow.golang import GoField, structs
from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["differences", "files"]

SUBJECT = "fields"
_FOLDERS = {
    "meta/v1": "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1",
    "apiextensions/v1": "staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "apiregistration/v1": "staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
}


def files(release: str) -> list[str]:
    """Return the files with the types of the packages that a release has."""
    known = {f"{group}/{version}" for group, version in registered_group_versions(release)}
    packages = (one.split("/") for one in sorted(facts.load()) if "/" in one)
    return [
        _file(f"{group}/{version}")
        for group, version in packages
        if group == "meta" or f"{GROUP_NAMES.get(group, group)}/{version}" in known
    ]


def _file(package: str) -> str:
    return f"{_FOLDERS.get(package, f'staging/src/k8s.io/api/{package}')}/types.go"


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield fields that only one side has in the release, or that differ in type, number, list type or gate."""
    for package, types in sorted(facts.load().items()):
        file = _file(package)
        text = source.read(file)
        if text is None:
            continue
        found = structs(text)
        for name in sorted(types.keys() & found.keys()):
            yield from _of_type(f"{package} {name}", name, types[name].get("fields", {}), found[name], release, file)
        used = _used(found)
        for name in sorted(found.keys() - types.keys()):
            if name in used and "metav1.ListMeta" not in found[name]:
                yield Difference(SUBJECT, f"{package} {name}", "has the type", "lacks it", file)


def _used(found: dict[str, dict[str, GoField]]) -> set[str]:
    """The structs that a field of the file has, or that are kinds of their own."""
    used = {one.go.lstrip("*[]").rpartition("]")[2] for fields in found.values() for one in fields.values()}
    return used | {name for name, fields in found.items() if "metav1.TypeMeta" in fields}


def _of_type(
    where: str, name: str, ours: dict[str, dict[str, Any]], theirs: dict[str, GoField], release: str, file: str
) -> Iterator[Difference]:
    # JSON leaves out fields with the name «-».
    written = {field: fact for field, fact in ours.items() if field != "-" and not fact.get("inline")}
    known = {field: fact for field, fact in written.items() if is_known(name, field, release)}
    shown = {field: one for field, one in theirs.items() if one.json}
    for field in sorted(shown.keys() - known.keys()):
        yield Difference(SUBJECT, f"{where}.{field}", f"has {shown[field].go}", "lacks it", file)
    for field in sorted(known.keys() - shown.keys()):
        yield Difference(SUBJECT, f"{where}.{field}", "lacks it", f"has {known[field]['type']}", file)
    for field in sorted(known.keys() & shown.keys()):
        fact, one = known[field], shown[field]
        for what, theirs_value, ours_value in (
            ("type", one.go, fact["type"]),
            ("protobuf number", one.number, fact.get("pb", 0)),
            ("listType", one.value("listType"), fact.get("listType", "")),
            ("featureGate", _gates(one), fact.get("featureGate", "")),
            ("omitempty", one.omitempty, bool(fact.get("omitempty"))),
        ):
            if theirs_value != ours_value:
                yield Difference(
                    SUBJECT, f"{where}.{field} {what}", str(theirs_value) or "none", str(ours_value) or "none", file
                )


def _gates(one: GoField) -> str:
    named = [tag.partition("=")[2] for tag in one.tags if tag.startswith("featureGate=")]
    return ",".join(named)
