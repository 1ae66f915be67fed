"""The credentials of a pod: a volume with a token of its service account, the API's certificate authority and its
namespace, mounted into every container (docs/spec/apimachinery.md §14).

The volume only says what the pod wants; the token is asked for by the node agent when the pod starts, and bound to it.
"""

from __future__ import annotations

import random as random_module
from typing import Any, Final, TypeVar

from cathedra.api.core.core_v1 import (
    ConfigMapProjection,
    Container,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    Pod,
    ProjectedVolumeSource,
    ServiceAccount,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from cathedra.api.struct import replace
from cathedra.apiserver.names import generate_name

__all__ = ["MOUNT_PATH", "with_credentials"]

MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_PREFIX: Final = "kube-api-access-"
_TOKEN_SECONDS: Final = 3607
"""A little over an hour, by which API servers tell the tokens that pods get unasked."""
_MODE: Final = 0o644
_SOURCE: Final = ProjectedVolumeSource(
    sources=(
        VolumeProjection(
            service_account_token=ServiceAccountTokenProjection(expiration_seconds=_TOKEN_SECONDS, path="token")
        ),
        VolumeProjection(
            config_map=ConfigMapProjection(name="kube-root-ca.crt", items=(KeyToPath(key="ca.crt", path="ca.crt"),))
        ),
        VolumeProjection(
            downward_api=DownwardAPIProjection(
                items=(
                    DownwardAPIVolumeFile(
                        path="namespace",
                        field_ref=ObjectFieldSelector(api_version="v1", field_path="metadata.namespace"),
                    ),
                )
            )
        ),
    ),
    default_mode=_MODE,
)

AnyContainer = TypeVar("AnyContainer", bound=Container)


def with_credentials(pod: Pod, account: ServiceAccount, random: random_module.Random) -> Pod:
    """The pod with its credentials, unless it or its account does not want them, or it mounts something else there."""
    spec: Any = pod.spec
    wanted = spec.automount_service_account_token
    if wanted is None:
        wanted = account.automount_service_account_token
    if wanted is False:
        return pod
    existing = next((one.name for one in spec.volumes if one.name.startswith(_PREFIX)), "")
    name = existing or generate_name(_PREFIX, random)
    containers = tuple(_mounted(one, name) for one in spec.containers)
    starters = tuple(_mounted(one, name) for one in spec.init_containers)
    if (containers, starters) == (spec.containers, spec.init_containers):
        return pod
    volumes = spec.volumes if existing else (*spec.volumes, Volume(name=name, projected=_SOURCE))
    return replace(pod, spec=replace(spec, containers=containers, init_containers=starters, volumes=volumes))


def _mounted(container: AnyContainer, volume: str) -> AnyContainer:
    if any(mount.mount_path == MOUNT_PATH for mount in container.volume_mounts):
        return container
    mount = VolumeMount(name=volume, read_only=True, mount_path=MOUNT_PATH)
    return replace(container, volume_mounts=(*container.volume_mounts, mount))
