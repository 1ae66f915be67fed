"""The images of a container runtime."""

from __future__ import annotations

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.cri.endpoint import CRIEndpoint, CRIError
from cathedra.node.runtime.runtime import Image, ImageFailure, RegistryLogin

__all__ = ["CRIImages"]


class CRIImages:
    """Looks images up, and has them pulled."""

    def __init__(self, endpoint: CRIEndpoint) -> None:
        self._endpoint = endpoint

    async def find(self, image: str) -> Image | None:
        """The image, if it is there.

        Raises:
            ImageFailure: the runtime cannot say.
        """
        try:
            answer = await self._endpoint.call("ImageStatus", api.ImageStatusRequest(image=api.ImageSpec(image=image)))
        except CRIError as error:
            raise ImageFailure(str(error)) from error
        if not answer.HasField("image"):
            return None
        found = answer.image
        return Image(found.id, found.size, found.uid.value if found.HasField("uid") else None, found.username)

    async def pull(self, image: str, login: RegistryLogin | None) -> None:
        """Have it pulled, for as long as it takes.

        Raises:
            ImageFailure: it cannot be had.
        """
        auth = None
        if login is not None:
            auth = api.AuthConfig(
                username=login.username,
                password=login.password,
                auth=login.auth,
                server_address=login.server,
                identity_token=login.identity_token,
                registry_token=login.registry_token,
            )
        request = api.PullImageRequest(image=api.ImageSpec(image=image), auth=auth)
        try:
            await self._endpoint.call("PullImage", request, seconds=None)
        except CRIError as error:
            raise ImageFailure(str(error)) from error
