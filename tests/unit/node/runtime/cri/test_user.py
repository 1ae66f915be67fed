"""As whom a container runs, and whether it may."""

from __future__ import annotations

import pytest

from cathedra.node.runtime.cri.user import with_user
from cathedra.node.runtime.runtime import ContainerSpec, Image, ImageFailure, PodIdentity, RegistryLogin, RuntimeFailure

POD = PodIdentity("ns", "p", "u")


class Images:
    """One image, or one problem."""

    def __init__(self, image: Image | ImageFailure | None) -> None:
        self.image = image

    async def find(self, image: str) -> Image | None:
        if isinstance(self.image, ImageFailure):
            raise self.image
        return self.image

    async def pull(self, image: str, login: RegistryLogin | None) -> None:
        raise AssertionError("nothing is pulled")


def spec(*, uid: int | None = None, non_root: bool = False) -> ContainerSpec:
    return ContainerSpec("id", POD, "c", 0, (), uid=uid, non_root=non_root)


@pytest.mark.parametrize(
    ("said", "image", "uid", "user"),
    [
        (5, Image("i", uid=6), 5, ""),
        (None, Image("i", uid=6), 6, ""),
        (None, Image("i", user="web"), None, "web"),
        (None, Image("i"), 0, ""),
        (None, None, None, ""),
    ],
)
async def test_the_pods_user_comes_before_the_images(
    said: int | None, image: Image | None, uid: int | None, user: str
) -> None:
    found = await with_user(spec(uid=said), Images(image))
    assert (found.uid, found.user) == (uid, user)


@pytest.mark.parametrize(
    ("said", "image", "problem"),
    [
        (0, Image("i", uid=6), "container's runAsUser breaks non-root policy"),
        (None, Image("i"), "container has runAsNonRoot and image will run as root"),
        (
            None,
            Image("i", user="web"),
            "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root",
        ),
    ],
)
async def test_what_must_not_be_root_does_not_start_as_root(said: int | None, image: Image, problem: str) -> None:
    with pytest.raises(RuntimeFailure) as raised:
        await with_user(spec(uid=said, non_root=True), Images(image))
    assert raised.value.reason == "CreateContainerConfigError"
    assert raised.value.message == f'{problem} (pod: "p_ns(u)", container: c)'


async def test_another_user_may_run() -> None:
    uid = 6
    assert (await with_user(spec(uid=uid, non_root=True), Images(None))).uid == uid
    assert (await with_user(spec(non_root=True), Images(Image("i", uid=uid)))).uid == uid


async def test_an_image_that_cannot_be_looked_at_keeps_the_container_waiting() -> None:
    with pytest.raises(RuntimeFailure, match="CreateContainerConfigError: away"):
        await with_user(spec(), Images(ImageFailure("away")))
