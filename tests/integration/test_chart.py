"""The Helm chart, rendered by Helm's own code: the objects of the kustomize bases, with what the values change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
BASES = {
    "scheduler": "scheduler/scheduler.yaml",
    "controllers": "controllers/controller-manager.yaml",
    "advisor": "advisor/advisor.yaml",
    "map": "map/map.yaml",
    "driver": "driver/driver.yaml",
}
# Helm's SDK; the other tests of the chart's objects are those of the bases.
helm: Any = pytest.importorskip("helm_python", reason="pip install helm-python-sdk")


def rendered(**values: Any) -> dict[str, list[dict[str, Any]]]:
    """The objects of each part."""
    with helm.Chart.load(str(DEPLOY / "chart")) as chart:
        files = chart.render(values, name="dra", namespace="kube-system")
    found = {Path(name).stem: [one for one in yaml.safe_load_all(text) if one] for name, text in files.items()}
    return {part: objects for part, objects in found.items() if objects}


def workload(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (one for one in objects if one["kind"] in ("Deployment", "DaemonSet"))
    return dict(found["spec"])


@pytest.mark.parametrize("part", BASES)
def test_with_the_default_values_the_objects_are_those_of_the_base(part: str) -> None:
    base = [one for one in yaml.safe_load_all((DEPLOY / "kustomize" / BASES[part]).read_text()) if one]
    assert rendered(controllers={"enabled": True}, map={"enabled": True})[part] == base


def test_the_controllers_are_installed_on_request() -> None:
    assert set(rendered()) == {"scheduler", "advisor", "driver"}
    off = {"enabled": False}
    assert set(rendered(driver=off, scheduler=off, advisor=off)) == set()


def test_values_set_image_replicas_and_the_drivers_options() -> None:
    found = rendered(image="example.com/cathedra:1", scheduler={"replicas": 3}, driver={"options": ["--gpus=4"]})
    quiet = rendered(advisor={"options": ["--events=off"]})["advisor"]
    assert workload(quiet)["template"]["spec"]["containers"][0]["command"][-1] == "--events=off"
    assert workload(found["scheduler"])["replicas"] == 3
    containers = [workload(objects)["template"]["spec"]["containers"][0] for objects in found.values()]
    assert {one["image"] for one in containers} == {"example.com/cathedra:1"}
    assert workload(found["driver"])["template"]["spec"]["containers"][0]["command"][-1] == "--gpus=4"


def rules_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (role,) = (one for one in objects if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", "cathedra-advisor"))
    return list(role["rules"])


def test_without_the_right_to_create_reviews_the_advisor_reads_and_writes_events_alone() -> None:
    every, bare = rendered()["advisor"], rendered(advisor={"reviews": False})["advisor"]
    created = {name for rule in rules_of(bare) if "create" in rule["verbs"] for name in rule["resources"]}
    assert created == {"events"}
    assert len(rules_of(every)) - len(rules_of(bare)) == 2
    assert workload(bare)["template"]["spec"]["containers"][0]["command"][-1] == "--answers=off"


def test_a_network_policy_admits_the_named_peers_to_the_advisors_port() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"team": "ml"}}}
    assert [one for one in rendered()["advisor"] if one["kind"] == "NetworkPolicy"] == []
    closed = rendered(advisor={"networkPolicy": {"enabled": True}})["advisor"]
    (policy,) = (one for one in closed if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"] == []
    opened = rendered(advisor={"networkPolicy": {"enabled": True, "from": [peer]}})["advisor"]
    (policy,) = (one for one in opened if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"] == [{"from": [peer], "ports": [{"protocol": "TCP", "port": 10269}]}]
    (deployment,) = (one for one in opened if one["kind"] == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"advisor": {"networkPolicy": {"from": [{"pods": {}}]}}}, "/advisor/networkPolicy/from/0"),
        ({"scheduler": {"replicas": 0}}, "/scheduler/replicas"),
        ({"picture": "cathedra"}, "picture"),
        ({"driver": {"options": ["gpus=4"]}}, "/driver/options/0"),
    ],
)
def test_the_schema_refuses_other_values_by_name(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=problem):
        rendered(**values)
