"""Mistakes in a scheduler's file, in kube-scheduler's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.scheduler.configuration.reading import ConfigurationError, read_configuration

ARGS = "profiles[0].pluginConfig[0].args"


def refusal(**body: Any) -> str:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    with pytest.raises(ConfigurationError) as refused:
        read_configuration(json.dumps({**head, **body}))
    return str(refused.value)


def of_plugin(plugin: str, **args: Any) -> str:
    return refusal(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"foo": 1, "profiles": [{"bar": 2}]}, 'unknown field "foo", unknown field "profiles[0].bar"'),
        ({"profiles": [{"plugins": {"score": {"enable": []}}}]}, 'unknown field "profiles[0].plugins.score.enable"'),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: Invalid value: -1: must be non-negative"),
        (
            {"leaderElection": {"leaseDuration": "0s"}},
            "[leaderElection.leaseDuration: Invalid value: 0s: must be greater than zero, "
            "leaderElection.leaseDuration: Invalid value: 10s: LeaseDuration must be greater than RenewDeadline]",
        ),
        (
            {"leaderElection": {"resourceName": "", "resourceLock": "endpoints"}},
            "[leaderElection.resourceName: Required value: resourceName is required, leaderElection.resourceLock: "
            'Invalid value: "endpoints": resourceLock value must be "leases"]',
        ),
        ({"profiles": [{"schedulerName": "a"}, {}]}, "profiles[1].schedulerName: Required value"),
        (
            {"profiles": [{"percentageOfNodesToScore": -1}]},
            "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesFit"}]}]},
            'profiles[0].pluginConfig[1]: Duplicate value: "NodeResourcesFit"',
        ),
        (
            {"parallelism": 0, "podInitialBackoffSeconds": 20},
            "[parallelism: Invalid value: 0: should be an integer value greater than zero, podMaxBackoffSeconds: "
            "Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds]",
        ),
    ],
)
def test_mistakes_in_the_file(body: dict[str, Any], text: str) -> None:
    told = refusal(**body)
    assert told == text or told == f"strict decoding error: {text}"


@pytest.mark.parametrize(
    ("plugin", "args", "text"),
    [
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "Best"}},
            'scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated", "MostAllocated", '
            '"RequestedToCapacityRatio"',
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight: Invalid value: 101: "
            "resource weight of cpu not in valid range (0, 100]",
        ),
        (
            "NodeResourcesFit",
            {"ignoredResourceGroups": ["a.b/c"]},
            "ignoredResourceGroups[0]: Invalid value: \"a.b/c\": resource group name can't contain '/'",
        ),
        ("DynamicResources", {"filterTimeout": "-1s"}, "filterTimeout: Invalid value: -1s: must be zero or positive"),
        (
            "DynamicResources",
            {"bindingTimeout": "1ms"},
            "bindingTimeout: Invalid value: 1ms: must be at least 1 second",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 1}, {"name": "cpu", "weight": 1}]},
            'resources[1].name: Duplicate value: "cpu"',
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesAbsolute": -1},
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]},
            'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "Own"},
            'defaultingType: Unsupported value: "Own": supported values: "List", "System"',
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -5},
            "bindTimeoutSeconds: Invalid value: -5: invalid BindTimeoutSeconds, should not be a negative value",
        ),
    ],
)
def test_mistakes_in_the_arguments_of_plugins(plugin: str, args: dict[str, Any], text: str) -> None:
    assert of_plugin(plugin, **args) == f"{ARGS}.{text}"


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ({"maxSkew": 0}, "[0].maxSkew: Invalid value: 0: not in valid range (0, inf)"),
        ({"topologyKey": ""}, "[0].topologyKey: Required value: can not be empty"),
        ({"whenUnsatisfiable": ""}, "[0].whenUnsatisfiable: Required value: can not be empty"),
        (
            {"whenUnsatisfiable": "Never"},
            '[0].whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway"',
        ),
        (
            {"labelSelector": {}},
            "[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod",
        ),
    ],
)
def test_default_constraints_without_meaning(constraint: dict[str, Any], text: str) -> None:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    told = of_plugin("PodTopologySpread", defaultingType="List", defaultConstraints=[{**good, **constraint}])
    assert told == f"{ARGS}.defaultConstraints{text}"


def test_a_default_constraint_may_be_there_once() -> None:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    told = of_plugin("PodTopologySpread", defaultingType="List", defaultConstraints=[good, good])
    assert told == f'{ARGS}.defaultConstraints[1]: Duplicate value: "{{zone, DoNotSchedule}}"'


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ([], "shape: Required value: at least one point must be specified"),
        (
            [(50, 1), (50, 2)],
            "shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
        ),
        ([(101, 1)], "shape[0].utilization: Invalid value: 101: not in valid range [0, 100]"),
        ([(1, 11)], "shape[0].score: Invalid value: 11: not in valid range [0, 10]"),
    ],
)
def test_lines_without_meaning(shape: list[tuple[int, int]], text: str) -> None:
    points = [{"utilization": utilization, "score": score} for utilization, score in shape]
    ratio = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}}
    assert of_plugin("NodeResourcesFit", scoringStrategy=ratio) == f"{ARGS}.scoringStrategy.{text}"


def test_neither_a_share_nor_a_number_of_candidates() -> None:
    told = of_plugin("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0)
    assert told == (
        f"[{ARGS}.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
        f"minCandidateNodesAbsolute, {ARGS}.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same "
        "time as minCandidateNodesPercentage]"
    )


def test_arguments_of_another_plugin() -> None:
    assert of_plugin("DefaultPreemption", kind="InterPodAffinityArgs") == (
        "decoding .profiles[0].pluginConfig[0]: args for plugin DefaultPreemption were not of type "
        "DefaultPreemptionArgs.kubescheduler.config.k8s.io, got InterPodAffinityArgs.kubescheduler.config.k8s.io"
    )


def test_a_duration_that_is_none() -> None:
    start = "decoding .profiles[0].pluginConfig[0]: decoding args for plugin DynamicResources: "
    assert of_plugin("DynamicResources", filterTimeout="soon") == f'{start}time: invalid duration "soon"'
