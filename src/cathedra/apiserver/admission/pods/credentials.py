"""The credentials of a pod: a volume with a token of its service account, the API's certificate authority and its
namespace, mounted into every container (docs/spec/apimachinery.md §14).

The volume only says what the pod wants; the token is asked for by the node agent when the pod starts, and bound to it.
"""

from __future__ import annotations

import random as random_module
from typing import Final

from cathedra.api.core.core_v1 import (
    ConfigMapProjection,
    Container,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    PodSpec,
    ProjectedVolumeSource,
    ServiceAccount,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from cathedra.api.struct import replace
from cathedra.apiserver.names import generate_name

__all__ = ["MOUNT_PATH", "mentions_credentials", "with_credentials"]

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


def with_credentials(spec: PodSpec, account: ServiceAccount, random: random_module.Random) -> PodSpec:
    """The pod's spec with its credentials, unless it or its account does not want them, or it mounts something else
    there."""
    if not _wants(spec, account):
        return spec
    existing = _existing(spec.volumes) if spec.volumes else ""
    name = existing or generate_name(_PREFIX, random)
    mount = VolumeMount(name=name, read_only=True, mount_path=MOUNT_PATH)
    return replace(
        spec,
        containers=_mounted(spec.containers, mount),
        init_containers=_mounted(spec.init_containers, mount) if spec.init_containers else spec.init_containers,
        volumes=spec.volumes if existing else (*spec.volumes, Volume(name=name, projected=_SOURCE)),
    )


def mentions_credentials(spec: PodSpec) -> bool:
    """Whether a spec that was sent has a name in it that the volume with credentials may get."""
    names = [one.name for one in spec.volumes]
    names += [mount.name for one in (*spec.containers, *spec.init_containers) for mount in one.volume_mounts]
    return any(name.startswith(_PREFIX) for name in names)


def _wants(spec: PodSpec, account: ServiceAccount) -> bool:
    wanted = spec.automount_service_account_token
    if wanted is None:
        wanted = account.automount_service_account_token
    return wanted is not False and not all(map(_has_mount, (*spec.containers, *spec.init_containers)))


def _existing(volumes: tuple[Volume, ...]) -> str:
    """The volume with credentials that the pod brings along."""
    return next((one.name for one in volumes if one.name.startswith(_PREFIX)), "")


def _mounted(containers: tuple[Container, ...], mount: VolumeMount) -> tuple[Container, ...]:
    return tuple(
        [one if _has_mount(one) else replace(one, volume_mounts=(*one.volume_mounts, mount)) for one in containers]
    )


def _has_mount(container: Container) -> bool:
    mounts = container.volume_mounts
    return bool(mounts) and any(mount.mount_path == MOUNT_PATH for mount in mounts)
