"""Having the image of a container there: pull policies, back-off, and what is told of it.

As a kubelet's image manager does it, with its events, reasons and texts. Pulling fails with ``ErrImagePull``; while the
next try is not due, the reason is ``ImagePullBackOff`` and the message repeats what went wrong.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import Container
from cathedra.client.backoff import ItemBackoff
from cathedra.clock import Clock
from cathedra.node.images.logins import logins_for
from cathedra.node.images.names import InvalidImageName, with_tag
from cathedra.node.images.pullsecrets import PullSecrets, Tell
from cathedra.node.runtime.runtime import Image, ImageFailure, ImageStore

__all__ = ["ImagePuller", "ImageUnavailable"]

BACKOFF_FIRST: Final = 10.0
BACKOFF_MAX: Final = 300.0
_SOON: Final = 1.0
"""Seconds after a pull that failed until its back-off is told of."""
_REGISTRY: Final = "RegistryUnavailable"
_SIGNATURE: Final = "SignatureValidationFailed"


class ImageUnavailable(Exception):
    """A container has no image to run; ``reason`` and ``message`` are its waiting state's.

    ``again`` is when to try next, in seconds from now; None: as with any container that cannot be made.
    """

    def __init__(self, reason: str, message: str, again: float | None = None) -> None:
        self.reason, self.message, self.again = reason, message, again
        super().__init__(f"{reason}: {message}")


class ImagePuller:
    """Has the images of one pod's containers pulled."""

    def __init__(self, images: ImageStore, secrets: PullSecrets, clock: Clock) -> None:
        self._images = images
        self._secrets = secrets
        self._clock = clock
        self._backoff: ItemBackoff[str] = ItemBackoff(base=BACKOFF_FIRST, maximum=BACKOFF_MAX)
        self._until: dict[str, float] = {}
        """Image → when it may be pulled again, monotonic seconds."""
        self._problems: dict[str, str] = {}

    async def ensure(self, container: Container, tell: Tell) -> tuple[str, Image]:
        """The full name of the container's image, and the image, which is there.

        Raises:
            ImageUnavailable: it cannot be had now, or not at all.
        """
        try:
            image = with_tag(container.image)
        except InvalidImageName as error:
            message = f'Failed to apply default image tag "{container.image}": {error}'
            tell("Warning", "InspectFailed", message)
            raise ImageUnavailable("InvalidImageName", message) from error
        policy = container.image_pull_policy
        present = await self._find(image, container.image, tell)
        if policy == "Never" and present is None:
            message = f'Container image "{container.image}" is not present with pull policy of Never'
            tell("Warning", "ErrImageNeverPull", message)
            raise ImageUnavailable("ErrImageNeverPull", message)
        if present is not None and policy != "Always":
            text = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
            tell("Normal", "Pulled", text)
            return image, present
        return image, await self._pull(image, container.image, tell)

    async def _find(self, image: str, named: str, tell: Tell) -> Image | None:
        try:
            return await self._images.find(image)
        except ImageFailure as error:
            message = f'Failed to inspect image "{named}": {error}'
            tell("Warning", "InspectFailed", message)
            raise ImageUnavailable("ImageInspectError", message) from error

    async def _pull(self, image: str, named: str, tell: Tell) -> Image:
        left = self._until.get(image, 0.0) - self._clock.monotonic()
        if left > 0:
            message = f'Back-off pulling image "{image}"'
            tell("Normal", "BackOff", message)
            raise ImageUnavailable("ImagePullBackOff", f"{message}: {self._problems[image]}", left)
        tell("Normal", "Pulling", f'Pulling image "{image}"')
        began = self._clock.monotonic()
        try:
            await self._pull_with_logins(image, tell)
        except ImageFailure as error:
            tell("Warning", "Failed", f'Failed to pull image "{image}": {error}')
            raise self._failed(image, str(error)) from error
        self._backoff.forget(image)
        self._until.pop(image, None)
        found = await self._find(image, named, tell)
        if found is None:
            raise self._failed(image, f'image "{image}" has been pulled and is not there')
        seconds = _milliseconds(self._clock.monotonic() - began)
        took = f"{seconds} ({seconds} including waiting)"
        text = f'Successfully pulled image "{image}" in {took}. Image size: {found.size} bytes.'
        tell("Normal", "Pulled", text)
        return found

    async def _pull_with_logins(self, image: str, tell: Tell) -> None:
        """Try each login that fits, or none if none does; the last failure counts."""
        logins = logins_for(image, await self._secrets.contents(tell))
        for login in logins[:-1]:
            try:
                return await self._images.pull(image, login)
            except ImageFailure:
                continue
        return await self._images.pull(image, logins[-1] if logins else None)

    def _failed(self, image: str, problem: str) -> ImageUnavailable:
        self._until[image] = self._clock.monotonic() + self._backoff.delay(image)
        reason, message = "ErrImagePull", problem
        for known, why in ((_REGISTRY, "the registry is unavailable"), (_SIGNATURE, "the signature validation failed")):
            if problem.startswith(known):
                reason = known
                message = f"image pull failed for {image} because {why}{problem.removeprefix(known)}"
        self._problems[image] = f"{reason}: {message}"
        return ImageUnavailable(reason, message, _SOON)


def _milliseconds(seconds: float) -> str:
    """Seconds as Go prints a duration of whole milliseconds: 0s, 35ms, 1.5s, 1m2.5s."""
    whole = int(seconds * 1000)
    if whole < 1000:
        return f"{whole}ms" if whole else "0s"
    minutes, rest = divmod(whole, 60_000)
    text = f"{rest / 1000:g}s" if rest % 1000 else f"{rest // 1000}s"
    return f"{minutes}m{text}" if minutes else text
