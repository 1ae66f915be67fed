"""How images are called."""

from __future__ import annotations

import pytest

from cathedra.node.images.names import InvalidImageName, repository_of, with_tag

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1.36", "busybox:1.36"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        (f"a/b@{DIGEST}", f"a/b@{DIGEST}"),
        (f"a/b:1@{DIGEST}", f"a/b:1@{DIGEST}"),
        ("[::1]:5000/a", "[::1]:5000/a:latest"),
    ],
)
def test_a_name_without_tag_and_digest_is_the_latest(image: str, full: str) -> None:
    assert with_tag(image) == full


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("busybox", "docker.io/library/busybox"),
        ("me/tool:1", "docker.io/me/tool"),
        ("quay.io/me/tool:1", "quay.io/me/tool"),
        ("localhost/tool", "localhost/tool"),
        ("HOST/tool", "HOST/tool"),
    ],
)
def test_what_names_no_registry_is_of_the_default_one(image: str, repository: str) -> None:
    assert repository_of(image) == repository


@pytest.mark.parametrize("image", ["", "a b", "-a", "a:b:c", "a@sha256:1", "a//b", "a:", "/a", "a" * 300])
def test_what_is_no_name_is_refused(image: str) -> None:
    with pytest.raises(InvalidImageName) as raised:
        with_tag(image)
    assert str(raised.value).startswith(f'couldn\'t parse image name "{image}": ')


def test_capitals_in_a_repository_are_named_as_the_problem() -> None:
    with pytest.raises(InvalidImageName, match=r"repository name \(library/Busybox\) must be lowercase"):
        with_tag("Busybox")
