"""A container's environment variables: literal, from config maps and secrets, from the pod's own fields.

Later definitions win, and ``$(NAME)`` in values, commands and arguments is replaced by what is defined before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cathedra.api.core.core_v1 import Container, EnvVar, Pod
from cathedra.node.resources.nodefacts import NodeFacts
from cathedra.node.setup.errors import ContainerConfigError
from cathedra.node.setup.references import References, field_value, resource_value

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; ``$$`` is a dollar sign, and an unknown name stays as it is written."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return values.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


async def container_environment(
    pod: Pod,
    container: Container,
    references: References,
    node: NodeFacts,
    *,
    inherited: Iterable[tuple[str, str]] = (),
) -> dict[str, str]:
    """Name → value, in order of definition.

    Raises:
        ConfigError: something that is referred to is missing.
    """
    values: dict[str, str] = dict(inherited)
    for source in container.env_from:
        found: Mapping[str, bytes] | None = None
        if source.config_map_ref is not None:
            found = await references.config_map(
                source.config_map_ref.name, optional=bool(source.config_map_ref.optional)
            )
        elif source.secret_ref is not None:
            found = await references.secret(source.secret_ref.name, optional=bool(source.secret_ref.optional))
        for key, value in (found or {}).items():
            values[source.prefix + key] = value.decode(errors="surrogateescape")
    for variable in container.env:
        value_or_none = await _value(pod, container, variable, references, values, node)
        if value_or_none is not None:
            values[variable.name] = value_or_none
    return values


async def _value(
    pod: Pod, container: Container, variable: EnvVar, references: References, values: Mapping[str, str], node: NodeFacts
) -> str | None:
    source = variable.value_from
    if source is None:
        return expand(variable.value, values)
    if source.field_ref is not None:
        return field_value(pod, source.field_ref.field_path, node.address, node.pod_address)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, node.allocatable)
    if source.file_key_ref is not None:
        raise ContainerConfigError(
            f"variable {variable.name}: this node agent reads no variables from files of volumes"
        )
    if source.config_map_key_ref is not None:
        key = source.config_map_key_ref
        content = await references.config_map(key.name, optional=bool(key.optional))
        return _entry(content, key.key, f"ConfigMap {pod.metadata.namespace}/{key.name}", optional=bool(key.optional))
    if source.secret_key_ref is not None:
        secret = source.secret_key_ref
        content = await references.secret(secret.name, optional=bool(secret.optional))
        return _entry(
            content, secret.key, f"Secret {pod.metadata.namespace}/{secret.name}", optional=bool(secret.optional)
        )
    return ""


def _entry(content: Mapping[str, bytes] | None, key: str, where: str, *, optional: bool) -> str | None:
    if content is None:
        return None
    if key not in content:
        if optional:
            return None
        raise ContainerConfigError(f"couldn't find key {key} in {where}")
    return content[key].decode(errors="surrogateescape")
