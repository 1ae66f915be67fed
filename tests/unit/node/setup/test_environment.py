"""Variables of containers (docs/spec/node.md §17)."""

from __future__ import annotations

from cathedra.api.core.core_v1 import (
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    ResourceFieldSelector,
    ResourceRequirements,
    SecretEnvSource,
)
from cathedra.api.quantity import Quantity
from cathedra.client.client import Client
from cathedra.node.setup.environment import expand
from tests.unit.node.setup.cases import play, variables


def test_references_in_values_are_replaced_and_dollars_escaped() -> None:
    assert expand("$(A)-$(B)-$$(A)-$C-$", {"A": "1"}) == "1-$(B)-$(A)-$C-$"


def test_variables_come_from_everywhere_and_later_ones_win() -> None:
    async def body(client: Client) -> None:
        limits = ResourceRequirements(limits={"cpu": Quantity("1500m")}, requests={"memory": Quantity("100Mi")})

        def resource(name: str, divisor: str = "") -> EnvVarSource:
            unit = Quantity(divisor) if divisor else None
            return EnvVarSource(resource_field_ref=ResourceFieldSelector(resource=name, divisor=unit))

        key = ConfigMapKeySelector(name="cm", key="a")
        container = Container(
            name="c",
            resources=limits,
            env_from=(
                EnvFromSource(prefix="CM_", config_map_ref=ConfigMapEnvSource(name="cm")),
                EnvFromSource(secret_ref=SecretEnvSource(name="s")),
                EnvFromSource(secret_ref=SecretEnvSource(name="missing", optional=True)),
            ),
            env=(
                EnvVar(name="CM_b", value="mine"),
                EnvVar(name="KEY", value_from=EnvVarSource(config_map_key_ref=key)),
                EnvVar(name="BOTH", value="$(KEY)+$(CM_b)"),
                EnvVar(name="NODE", value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path="spec.nodeName"))),
                EnvVar(name="IP", value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path="status.hostIP"))),
                EnvVar(name="CPU", value_from=resource("limits.cpu")),
                EnvVar(name="MILLI", value_from=resource("limits.cpu", "1m")),
                EnvVar(name="MEMORY", value_from=resource("requests.memory", "1Mi")),
                EnvVar(name="NODE_MEMORY", value_from=resource("limits.memory", "1Gi")),
                EnvVar(name="NOTHING", value_from=resource("requests.cpu")),
            ),
        )
        found = await variables(client, container)
        assert found["CM_a"] == "1"
        assert found["pw"] == "x y"
        assert (found["CM_b"], found["KEY"], found["BOTH"]) == ("mine", "1", "1+mine")
        assert (found["NODE"], found["IP"]) == ("n1", "10.0.0.7")
        assert (found["CPU"], found["MILLI"], found["MEMORY"]) == ("2", "1500", "100")
        assert (found["NODE_MEMORY"], found["NOTHING"]) == ("8", "0")

    play(body)
