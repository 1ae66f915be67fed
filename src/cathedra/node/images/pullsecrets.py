"""The secrets that a pod names in ``imagePullSecrets``, read when an image is pulled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from cathedra.api.core.core_v1 import Pod
from cathedra.client.client import Client
from cathedra.node.setup.errors import ContainerConfigError
from cathedra.node.setup.references import References

__all__ = ["PullSecrets", "Tell"]

Tell = Callable[[Literal["Normal", "Warning"], str, str], None]
"""Records an event of a container: type, reason, message."""


class PullSecrets:
    """Reads the pull secrets of one pod."""

    def __init__(self, client: Client, pod: Pod) -> None:
        self._client = client
        self._pod = pod

    async def contents(self, tell: Tell) -> list[Mapping[str, bytes]]:
        """What is in those that can be read; an event names the others."""
        references = References(self._client, self._pod.metadata.namespace)
        found: list[Mapping[str, bytes]] = []
        missing: list[str] = []
        for secret in self._pod.spec.image_pull_secrets:
            try:
                content = await references.secret(secret.name, optional=True)
            except ContainerConfigError:
                content = None
            if content is None:
                missing.append(secret.name)
            else:
                found.append(content)
        if missing:
            text = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
            tell("Warning", "FailedToRetrieveImagePullSecret", f"{text}attempting to pull the image may not succeed.")
        return found
