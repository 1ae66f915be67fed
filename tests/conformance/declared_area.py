"""Judges what Kubernetes' declarative validation of release 1.37 finds in an object (``vectors/declared``).

An object is given after defaulting, in its served version, alone (a create) or with the stored one (an update, with
``sub`` an update of a sub-resource). Tags are kept apart from rules written by hand, so the tags are judged alone. The
status of a group has its rules in one function, so all errors are judged. Metadata is not validated by tags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cathedra.api.decoding import decode_json
from cathedra.api.field import ErrorList
from cathedra.api.scheme import GroupVersionKind
from cathedra.kinds.declarative import declared_errors
from cathedra.kinds.definition import RequestContext, ResourceDefinition
from cathedra.kinds.resource import declared
from cathedra.kinds.scheduling.validation import POD_GROUP_TAGS, WORKLOAD_TAGS
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.conformance.vectorfiles import cases, vector_files

Result = tuple[str, str, bool, str]

RELEASE = "1.37"
GATES = FeatureGates.for_release(RELEASE, {"GenericWorkload": True, "DRAWorkloadResourceClaims": True})
TAGS = {
    "ResourceClaim": declared.CLAIM_TAGS,
    "DeviceClass": declared.CLASS_TAGS,
    "ResourceSlice": declared.slice_tags(GATES),
}
GROUP_TAGS = {"PodGroup": POD_GROUP_TAGS, "Workload": WORKLOAD_TAGS}


def run(folder: Path) -> Iterator[Result]:
    """One result per case of every file."""
    for name, path in vector_files(folder).items():
        for case in cases(path):
            difference = play(case)
            yield name, case["id"], not difference, difference


def play(case: dict[str, Any]) -> str:
    """The first difference of a case, or ""."""
    new = _decoded(case, case["object"])
    old = _decoded(case, case["old"]) if "old" in case else None
    if case["kind"] in TAGS:
        errors = declared_errors(TAGS[case["kind"]].hub, new, old, beta=GATES["DeclarativeValidationBeta"])
    elif "sub" not in case:
        version = case["apiVersion"].partition("/")[2]
        errors = declared_errors(GROUP_TAGS[case["kind"]][version], new, old, beta=True)
    else:
        errors = _validated(case, new, old)
    found = sorted((error.type.reason, str(error.field), error.message) for error in errors)
    wanted = sorted((error["type"], error["field"], error["text"]) for error in case["errors"])
    return "" if found == wanted else f"found {found}\nexpected {wanted}"


def _validated(case: dict[str, Any], new: Any, old: Any) -> ErrorList:
    """All errors of a changed sub-resource."""
    strategy = _definition(case["kind"]).subresources[case["sub"]]
    return strategy.validate_update(new, old, RequestContext(GATES, 0.0, case["apiVersion"]))


def _decoded(case: dict[str, Any], value: Any) -> Any:
    group, _, version = case["apiVersion"].partition("/")
    (served,) = [one for one in _definition(case["kind"]).versions if one.name == version]
    gvk = GroupVersionKind(group, version, case["kind"])
    return served.to_hub(decode_json(served.type, gvk, json.dumps(value).encode(), RELEASE).object)


@cache
def _definition(kind: str) -> ResourceDefinition[Any]:
    return next(one for one in all_definitions(GATES) if one.kind == kind)
