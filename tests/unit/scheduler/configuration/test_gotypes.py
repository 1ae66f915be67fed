"""What Kubernetes calls the parts of configuration files."""

from __future__ import annotations

import msgspec
import pytest

from cathedra.api.decoding.gotypes import Form
from cathedra.scheduler.configuration.document import Document as File
from cathedra.scheduler.configuration.document import (
    DynamicResourcesArgs,
    FitArgs,
    NodeAffinityArgs,
    SpreadArgs,
    VolumeBindingArgs,
)
from cathedra.scheduler.configuration.gotypes import go_type_of_file


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
        found = (found.element if found.form is Form.LIST and found.element else found).fields[step]
    assert found.name == name


def test_options_of_debugging_are_those_of_a_struct_within() -> None:
    embedded = go_type_of_file(File).embedded
    assert embedded == dict.fromkeys(("enableProfiling", "enableContentionProfiling"), "DebuggingConfiguration")
