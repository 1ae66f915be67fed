"""The form of configuration files."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.decoding.gotypes import ValueForm
from cathedra.scheduler.configuration.document import (
    Document,
    DynamicResourcesArgs,
    FitArgs,
    NodeAffinityArgs,
    PluginRef,
    PluginSet,
    PreemptionArgs,
    SpreadArgs,
    VolumeBindingArgs,
    go_type_of_file,
)
from cathedra.scheduler.configuration.document import Document as File

DOCUMENT: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 50,
    "leaderElection": {"leaderElect": True, "leaseDuration": "30s"},
    "profiles": [
        {
            "schedulerName": "mine",
            "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}], "disabled": [{"name": "*"}]}},
            "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "5s"}}],
        }
    ],
}


def read(value: Any, kind: type[Any] = Document) -> Any:
    return msgspec.convert(value, kind)


def test_an_empty_file_has_kubernetes_defaults() -> None:
    made = read({})
    assert (made.parallelism, made.pod_initial_backoff_seconds, made.pod_max_backoff_seconds) == (16, 1, 10)
    election = made.leader_election
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == ("15s", "10s", "2s")
    assert (election.resource_lock, election.resource_name, election.resource_namespace) == (
        "leases",
        "kube-scheduler",
        "kube-system",
    )
    assert (made.client_connection.qps, made.client_connection.burst) == (50, 100)


def test_names_in_files_are_in_camel_case() -> None:
    made = read(DOCUMENT)
    (profile,) = made.profiles
    assert (made.percentage_of_nodes_to_score, profile.scheduler_name) == (50, "mine")
    assert made.leader_election.lease_duration == "30s"
    assert profile.plugins.score == PluginSet([PluginRef("NodeResourcesFit", 3)], [PluginRef("*")])
    assert profile.plugin_config[0].args == {"filterTimeout": "5s"}
    assert msgspec.to_builtins(made)["percentageOfNodesToScore"] == 50


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ({"percentageOfNodes": 1}, Document, "unknown field `percentageOfNodes`"),
        ({"percentage_of_nodes_to_score": 1}, Document, "unknown field `percentage_of_nodes_to_score`"),
        ({"profiles": [{"plugins": {"scoring": {}}}]}, Document, r"unknown field `scoring` - at `\$.profiles\[0\]"),
        ({"parallelism": "many"}, Document, r"Expected `int`, got `str` - at `\$.parallelism`"),
        ({"filterTimeout": 5}, DynamicResourcesArgs, "Expected `str"),
        ({"timeout": "5s"}, DynamicResourcesArgs, "unknown field `timeout`"),
        ({"scoringStrategy": {"kind": "x"}}, FitArgs, "unknown field `kind`"),
    ],
)
def test_what_is_not_known_is_an_error_with_its_place(value: Any, kind: type[Any], text: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=text):
        read(value, kind)


def test_arguments_of_plugins_have_kubernetes_defaults() -> None:
    preemption = read({}, PreemptionArgs)
    assert (preemption.min_candidate_nodes_percentage, preemption.min_candidate_nodes_absolute) == (10, 100)
    assert read({}, SpreadArgs).defaulting_type == "System"
    assert read({}, FitArgs).scoring_strategy is None
    assert read({"scoringStrategy": {}}, FitArgs).scoring_strategy.type == "LeastAllocated"


@pytest.mark.parametrize(
    ("kind", "path", "name"),
    [
        (File, "profiles", "[]v1.KubeSchedulerProfile"),
        (File, "profiles.percentageOfNodesToScore", "int32"),
        (File, "profiles.plugins.multiPoint.enabled", "[]v1.Plugin"),
        (File, "profiles.pluginConfig.args", "runtime.RawExtension"),
        (File, "leaderElection", "v1alpha1.LeaderElectionConfiguration"),
        (File, "leaderElection.leaseDuration", "v1.Duration"),
        (File, "clientConnection.qps", "float32"),
        (File, "podInitialBackoffSeconds", "int64"),
        (FitArgs, "scoringStrategy.resources.weight", "int64"),
        (FitArgs, "scoringStrategy.requestedToCapacityRatio.shape.score", "int32"),
        (DynamicResourcesArgs, "bindingTimeout", "v1.Duration"),
        (VolumeBindingArgs, "bindTimeoutSeconds", "int64"),
        (SpreadArgs, "defaultConstraints.maxSkew", "int32"),
        (NodeAffinityArgs, "addedAffinity", "v1.NodeAffinity"),
    ],
)
def test_a_field_has_the_type_that_it_has_in_kubernetes(kind: type[msgspec.Struct], path: str, name: str) -> None:
    found = go_type_of_file(kind)
    for step in path.split("."):
        found = (found.element if found.form is ValueForm.LIST and found.element else found).fields[step]
    assert found.name == name


def test_options_of_debugging_are_those_of_a_struct_within() -> None:
    embedded = go_type_of_file(File).embedded
    assert embedded == dict.fromkeys(("enableProfiling", "enableContentionProfiling"), "DebuggingConfiguration")
