"""What variables and files refer to."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import (
    ConfigMapKeySelector,
    Container,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
)
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.node.setup.references import ContainerConfigError, field_value
from tests.running import run_with
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import play, variables


@pytest.mark.parametrize(
    ("variable", "complaint"),
    [
        (EnvVarSource(config_map_key_ref=ConfigMapKeySelector(name="no", key="a")), 'configmap "no" not found'),
        (
            EnvVarSource(config_map_key_ref=ConfigMapKeySelector(name="cm", key="z")),
            "couldn't find key z in ConfigMap default/cm",
        ),
        (EnvVarSource(field_ref=ObjectFieldSelector(field_path="spec.magic")), "unsupported fieldPath: spec.magic"),
    ],
)
@run_with(play)
async def test_what_is_not_there_is_named(client: Client, *, variable: EnvVarSource, complaint: str) -> None:
    with pytest.raises(ContainerConfigError, match=complaint):
        await variables(client, Container(name="c", env=(EnvVar(name="X", value_from=variable),)))


def test_labels_are_listed_or_asked_for_one_by_one() -> None:
    pod = replace(make_pod(), metadata=replace(make_pod().metadata, labels={"b": 'q"x', "a.io/x": "1"}))
    assert field_value(pod, "metadata.labels", "") == 'a.io/x="1"\nb="q\\"x"'
    assert field_value(pod, "metadata.labels['a.io/x']", "") == "1"
    assert field_value(pod, "metadata.labels['none']", "") == ""
