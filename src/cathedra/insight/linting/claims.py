"""References between pods and claims: claims and requests that no container uses, or that do not exist; preferences of
claims that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cathedra.api.core.core_v1 import Container, EphemeralContainer, PodSpec
from cathedra.api.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from cathedra.insight.linting.findings import Findings, ManifestObject, claim_spec_of
from cathedra.insight.manifests import pod_spec_of
from cathedra.semantics.podclaims import claim_source
from cathedra.semantics.preferredconstraints import preferences_of

ClaimKey = tuple[str, str, str]
"""Kind («claim» or «template»), namespace and name."""


@dataclass(slots=True)
class _ClaimUse:
    """Uses of a claim by the containers of all pods."""

    requests: set[str] = field(default_factory=set)
    whole: bool = False
    """True if some container uses the whole claim."""
    pods: int = 0


def check_claims(
    objects: Iterable[ManifestObject],
    known: Mapping[ClaimKey, ResourceClaimSpec] | None,
    classes: Mapping[str, tuple[str | None, ...]],
    findings: Findings,
) -> None:
    """Enter what does not fit together; ``known`` are the claims and templates of a cluster, None without one, and
    ``classes`` the selectors of classes by name."""
    objects = tuple(objects)
    given = {key: one for one in objects if (key := _key_of(one)) is not None}
    specs = {
        **(known or {}),
        **{key: found[0] for key, one in given.items() if (found := claim_spec_of(one)) is not None},
    }
    uses: dict[ClaimKey, _ClaimUse] = {}
    for one in objects:
        spec = pod_spec_of(one.object)
        if spec is not None:
            _check_pod(one, spec, specs, classes, uses, findings)
            if known is not None:
                _check_sources(one, spec, specs, findings)
    for key, use in uses.items():
        if key in given and not use.whole and use.requests:
            _unused_requests(given[key], use, findings)
    for one in given.values():
        _check_preferences(one, findings)


def _check_preferences(one: ManifestObject, findings: Findings) -> None:
    claim, path = one.object, "metadata.annotations"
    if isinstance(claim, ResourceClaimTemplate):
        claim, path = ResourceClaim(metadata=claim.spec.metadata, spec=claim.spec.spec), f"spec.{path}"
    if isinstance(claim, ResourceClaim) and (problem := preferences_of(claim).problem):
        findings.add("unusable-preference", one.manifest, path, problem)


def _key_of(one: ManifestObject) -> ClaimKey | None:
    kind = {"ResourceClaim": "claim", "ResourceClaimTemplate": "template"}.get(one.manifest.gvk.kind)
    return (kind, one.namespace, one.manifest.name) if kind else None


def _check_pod(
    one: ManifestObject,
    spec: PodSpec,
    specs: Mapping[ClaimKey, ResourceClaimSpec],
    classes: Mapping[str, tuple[str | None, ...]],
    uses: dict[ClaimKey, _ClaimUse],
    findings: Findings,
) -> None:
    path = one.pod_spec_path
    containers: tuple[tuple[str, tuple[Container | EphemeralContainer, ...]], ...] = (
        ("initContainers", spec.init_containers or ()),
        ("containers", spec.containers or ()),
    )
    for number, entry in enumerate(spec.resource_claims or ()):
        source = claim_source(entry)
        template = source.resource_claim_template_name
        key = ("template" if template else "claim", one.namespace, template or source.resource_claim_name or "")
        use = uses.setdefault(key, _ClaimUse())
        use.pods += 1
        used = False
        for field_name, several in containers:
            for place, container in enumerate(several):
                for position, claim in enumerate(container.resources.claims):
                    if claim.name != entry.name:
                        continue
                    used = True
                    use.whole = use.whole or not claim.request
                    if claim.request in _names(specs.get(key)):
                        use.requests.add(claim.request)
                    where = f"{path}.{field_name}[{place}].resources.claims[{position}].request"
                    _check_request(one, where, claim.request, key, specs, findings)
        if not used and _is_for_containers(entry.name, key, specs.get(key), classes):
            why = f'no container uses claim "{entry.name}": the pod holds the devices, and no container has them'
            hint = f"in a container: resources: {{claims: [{{name: {entry.name}}}]}}"
            findings.add("unused-claim", one.manifest, f"{path}.resourceClaims[{number}].name", why, hint=hint)


_WORDS: Final = re.compile(r"[a-z]+[0-9]*|[A-Z]+(?![a-z])[0-9]*|[A-Z][a-z]+[0-9]*")
_OF_NETWORKS: Final = frozenset(
    (
        *("net", "network", "networks", "networking", "netdev", "nic", "nics", "vnic", "gvnic", "smartnic", "dranet"),
        *("rdma", "mrdma", "roce", "infiniband", "ib", "hca", "efa", "ethernet", "eth", "fabric", "sriov", "vf", "vfs"),
        *("cni", "vlan", "macvlan", "ipvlan", "vxlan", "bridge", "bond", "dpu", "interface", "interfaces", "mlnx"),
        *("multus", "imex", "channel", "gve", "tcpx", "tcpxo", "link", "switch"),
    )
)
"""Words of network devices: drivers of these put them into the pod, and no container names the claim."""
_OF_PROCESSORS: Final = frozenset(
    ("gpu", "gpus", "cpu", "cpus", "tpu", "tpus", "npu", "npus", "mig", "accelerator", "accelerators", "hpu", "xpu")
)
"""Words of devices that containers use."""


def _is_for_containers(
    entry: str, key: ClaimKey, spec: ResourceClaimSpec | None, classes: Mapping[str, tuple[str | None, ...]]
) -> bool:
    """Return True if the devices of a claim are for containers: nothing in the claim or in its classes is about
    networks. A claim that is not known has to be about processors by its name."""
    texts = [entry, key[2]]
    if spec is None:
        return not _OF_PROCESSORS.isdisjoint(_words(texts))
    for request in spec.devices.requests or ():
        texts.append(request.name)
        for one in (request.exactly, *request.first_available):
            if one is not None:
                texts += (one.device_class_name, *(each.cel.expression for each in one.selectors if each.cel))
                texts += (text or "" for text in classes.get(one.device_class_name, ()))
    texts += (one.opaque.driver for one in spec.devices.config or () if one.opaque is not None)
    return _OF_NETWORKS.isdisjoint(_words(texts))


def _words(texts: Iterable[str]) -> set[str]:
    return {word.lower() for text in texts for word in _WORDS.findall(text)}


def _check_sources(
    one: ManifestObject, spec: PodSpec, specs: Mapping[ClaimKey, ResourceClaimSpec], findings: Findings
) -> None:
    """Claims and templates that are neither in the cluster nor in files."""
    path = one.pod_spec_path
    for number, entry in enumerate(spec.resource_claims or ()):
        source = claim_source(entry)
        for kind, name, field_name in (
            ("claim", source.resource_claim_name, "resourceClaimName"),
            ("template", source.resource_claim_template_name, "resourceClaimTemplateName"),
        ):
            if name and (kind, one.namespace, name) not in specs:
                where = f"{path}.resourceClaims[{number}].{field_name}"
                why = f"there is no {kind} {name} in namespace {one.namespace}, neither in the cluster nor in the files"
                findings.add("unknown-claim", one.manifest, where, f"{why}: the pod waits for it")


def _check_request(
    one: ManifestObject,
    path: str,
    request: str,
    key: ClaimKey,
    specs: Mapping[ClaimKey, ResourceClaimSpec],
    findings: Findings,
) -> None:
    spec = specs.get(key)
    if not request or spec is None:
        return
    names = _names(spec)
    if request not in names:
        there = ", ".join(names) or "none"
        why = f'{key[0]} {key[2]} has no request "{request}"; it has {there}: the kubelet cannot start the container'
        findings.add("unknown-request", one.manifest, path, why)


def _names(spec: ResourceClaimSpec | None) -> list[str]:
    return [each.name for each in spec.devices.requests or ()] if spec is not None else []


def _unused_requests(one: ManifestObject, use: _ClaimUse, findings: Findings) -> None:
    found = claim_spec_of(one)
    if found is None:
        return
    spec, path = found
    for number, request in enumerate(spec.devices.requests or ()):
        if request.name not in use.requests:
            why = f'no container uses request "{request.name}"; containers name others of this claim only'
            findings.add("unused-request", one.manifest, f"{path}.requests[{number}].name", why)
