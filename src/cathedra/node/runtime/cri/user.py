"""As whom a container runs: the pod says it, else its image; and whether that may be.

The rules and their texts are a kubelet's.
"""

from __future__ import annotations

from msgspec.structs import replace

from cathedra.node.runtime.runtime import ContainerSpec, ImageFailure, ImageStore, RuntimeFailure

__all__ = ["with_user"]


async def with_user(spec: ContainerSpec, images: ImageStore) -> ContainerSpec:
    """The container with the user of its image, where the pod names none.

    Raises:
        RuntimeFailure: it would run as root, and must not; or its image cannot be looked at.
    """
    if spec.uid is None:
        try:
            image = await images.find(spec.image)
        except ImageFailure as error:
            raise RuntimeFailure("CreateContainerConfigError", str(error)) from error
        if image is not None:
            spec = replace(spec, uid=image.uid, user=image.user if image.uid is None else "")
        if image is not None and image.uid is None and not image.user:
            spec = replace(spec, uid=0)
        _verify(spec, "container has runAsNonRoot and image will run as root")
    else:
        _verify(spec, "container's runAsUser breaks non-root policy")
    return spec


def _verify(spec: ContainerSpec, problem: str) -> None:
    if not spec.non_root:
        return
    where = f'(pod: "{spec.pod.name}_{spec.pod.namespace}({spec.pod.uid})", container: {spec.name})'
    if spec.user:
        problem = f"container has runAsNonRoot and image has non-numeric user ({spec.user})"
        problem = f"{problem}, cannot verify user is non-root"
    elif spec.uid:
        return
    raise RuntimeFailure("CreateContainerConfigError", f"{problem} {where}")
