"""The kinds of scheduling.k8s.io by release."""

from __future__ import annotations

import pytest

from cathedra.api.core import scheduling_v1alpha2, scheduling_v1alpha3
from cathedra.kinds.scheduling.definitions import scheduling_definitions
from tests.unit.kinds.objects import gates


@pytest.mark.parametrize(
    ("release", "versions"), [("1.35", {}), ("1.36", ["v1alpha2"]), ("1.37", ["v1beta1", "v1alpha3"])]
)
def test_workloads_and_groups_move_from_version_to_version(release: str, versions: list[str]) -> None:
    found = {definition.plural: definition for definition in scheduling_definitions(gates(release))}
    composites = found.pop("compositepodgroups", None)
    assert (composites is not None) is ("v1alpha3" in versions)
    assert composites is None or (composites.gate, composites.versions[0].name) == ("CompositePodGroup", "v1alpha3")
    assert set(found) == ({"priorityclasses", "workloads", "podgroups"} if versions else {"priorityclasses"})
    for plural in found.keys() - {"priorityclasses"}:
        assert [version.name for version in found[plural].versions] == versions
        assert not any(version.served_by_default for version in found[plural].versions)
        assert found[plural].gate == "GenericWorkload"


def test_in_136_objects_are_kept_in_the_form_of_137() -> None:
    groups = {definition.plural: definition for definition in scheduling_definitions(gates("1.36"))}["podgroups"]
    (version,) = groups.versions
    assert (groups.type, version.type) == (scheduling_v1alpha3.PodGroup, scheduling_v1alpha2.PodGroup)
    hub = version.to_hub(scheduling_v1alpha2.PodGroup())
    assert type(hub) is scheduling_v1alpha3.PodGroup
    assert type(version.from_hub(hub)) is scheduling_v1alpha2.PodGroup
