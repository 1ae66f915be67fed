"""Pull policies, back-off and messages: those of a kubelet, word by word."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Container, LocalObjectReference, Secret
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.resources import SECRETS
from cathedra.clock import run_virtual
from cathedra.node.images import (
    ImagePuller,
    ImageUnavailable,
    InvalidImageName,
    PullSecrets,
    logins_for,
    repository_of,
    with_tag,
)
from cathedra.node.runtime.runtime import Image, ImageFailure, RegistryLogin
from tests.running import on_virtual_clock, run_with
from tests.unit.node.fakes import make_pod
from tests.unit.node.pods.onepod import OnePod

HERE = Image("sha256:1", 7)


class Store:
    """Images that are there, and what happens when one is pulled."""

    def __init__(self, *present: str) -> None:
        self.present = dict.fromkeys(present, HERE)
        self.problems: list[str] = []
        self.pulled: list[str] = []
        self.seconds = 0.0
        self.sleep: Callable[[float], Coroutine[Any, Any, None]]

    async def find(self, image: str) -> Image | None:
        if image == "odd:1":
            raise ImageFailure("rpc error: code = Unknown desc = odd")
        return self.present.get(image)

    async def pull(self, image: str, login: RegistryLogin | None) -> None:
        self.pulled.append(image)
        await self.sleep(self.seconds)
        if self.problems:
            raise ImageFailure(self.problems.pop(0))
        self.present[image] = HERE


class Pulls:
    """Return a pod's puller and its events."""

    def __init__(self, one: OnePod, store: Store) -> None:
        self.one, self.store = one, store
        store.sleep = one.clock.sleep
        self.puller = ImagePuller(store, PullSecrets(one.client, one.object.pod), one.clock)
        self.told: list[tuple[str, str, str]] = []

    async def ensure(self, image: str, policy: str = "IfNotPresent") -> tuple[str, Image] | ImageUnavailable:
        container = Container(name="c", image=image, image_pull_policy=policy)
        try:
            return await self.puller.ensure(container, lambda *event: self.told.append(event))
        except ImageUnavailable as error:
            return error


def play(store: Store, body: Callable[[Pulls], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await body(Pulls(OnePod(), store))

    run_virtual(main())


@run_with(lambda test: play(Store("here:latest"), test))
async def test_an_image_that_is_there_is_not_pulled(pulls: Pulls) -> None:
    assert await pulls.ensure("here") == ("here:latest", HERE)
    text = 'Container image "here" already present on machine and can be accessed by the pod'
    assert pulls.told == [("Normal", "Pulled", text)]
    assert await pulls.ensure("here", "Never") == ("here:latest", HERE)
    assert pulls.store.pulled == []


@run_with(lambda test: play(Store("here:1"), test))
async def test_always_means_always(pulls: Pulls) -> None:
    pulls.store.seconds = 1.25
    assert await pulls.ensure("here:1", "Always") == ("here:1", HERE)
    done = 'Successfully pulled image "here:1" in 1.25s (1.25s including waiting). Image size: 7 bytes.'
    assert pulls.told == [("Normal", "Pulling", 'Pulling image "here:1"'), ("Normal", "Pulled", done)]


@run_with(lambda test: play(Store(), test))
async def test_never_means_never(pulls: Pulls) -> None:
    found = await pulls.ensure("gone:1", "Never")
    text = 'Container image "gone:1" is not present with pull policy of Never'
    assert isinstance(found, ImageUnavailable)
    assert (found.reason, found.message, found.again) == ("ErrImageNeverPull", text, None)
    assert pulls.told == [("Warning", "ErrImageNeverPull", text)]


@run_with(lambda test: play(Store(), test))
async def test_a_name_that_is_none_is_not_looked_for(pulls: Pulls) -> None:
    found = await pulls.ensure("UPPER")
    assert isinstance(found, ImageUnavailable)
    assert found.reason == "InvalidImageName"
    assert found.message.startswith('Failed to apply default image tag "UPPER": couldn\'t parse image name "UPPER"')
    assert pulls.told == [("Warning", "InspectFailed", found.message)]


@run_with(lambda test: play(Store(), test))
async def test_an_image_that_cannot_be_looked_at_is_told(pulls: Pulls) -> None:
    found = await pulls.ensure("odd:1")
    assert isinstance(found, ImageUnavailable)
    assert found.reason == "ImageInspectError"
    assert found.message == 'Failed to inspect image "odd:1": rpc error: code = Unknown desc = odd'


@run_with(lambda test: play(Store(), test))
async def test_a_failed_pull_backs_off_and_repeats_what_went_wrong(pulls: Pulls) -> None:
    pulls.store.problems = ["first", "second"]
    failed = await pulls.ensure("x:1")
    assert isinstance(failed, ImageUnavailable)
    assert (failed.reason, failed.message, failed.again) == ("ErrImagePull", "first", 1.0)
    await pulls.one.clock.sleep(1.0)
    waits = await pulls.ensure("x:1")
    assert isinstance(waits, ImageUnavailable)
    assert (waits.reason, waits.again) == ("ImagePullBackOff", 9.0)
    assert waits.message == 'Back-off pulling image "x:1": ErrImagePull: first'
    assert pulls.told[1:] == [
        ("Warning", "Failed", 'Failed to pull image "x:1": first'),
        ("Normal", "BackOff", 'Back-off pulling image "x:1"'),
    ]
    await pulls.one.clock.sleep(9.0)
    assert isinstance(await pulls.ensure("x:1"), ImageUnavailable)
    longer = await pulls.ensure("x:1")
    assert isinstance(longer, ImageUnavailable)
    assert (longer.reason, longer.again) == ("ImagePullBackOff", 20.0)
    await pulls.one.clock.sleep(20.0)
    assert await pulls.ensure("x:1") == ("x:1", HERE)


@pytest.mark.parametrize(
    ("problem", "reason", "message"),
    [
        ("RegistryUnavailable: down", "RegistryUnavailable", "because the registry is unavailable: down"),
        ("SignatureValidationFailed", "SignatureValidationFailed", "because the signature validation failed"),
    ],
)
@run_with(lambda test: play(Store(), test))
async def test_runtimes_may_say_more_of_the_problem(pulls: Pulls, *, problem: str, reason: str, message: str) -> None:
    pulls.store.problems = [problem]
    found = await pulls.ensure("x:1")
    assert isinstance(found, ImageUnavailable)
    assert (found.reason, found.message) == (reason, f"image pull failed for x:1 {message}")


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


def secret(**auths: Any) -> Mapping[str, bytes]:
    return {".dockerconfigjson": json.dumps({"auths": auths}).encode()}


ENTRY = {"username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("server", "image", "fits"),
    [
        ("quay.io", "quay.io/a/b", True),
        ("https://quay.io/v1/", "quay.io/a/b:1", True),
        ("quay.io/a", "quay.io/a/b", True),
        ("quay.io/a", "quay.io/ab/c", False),
        ("*.example.com", "x.example.com/a", True),
        ("*.example.com", "x.y.example.com/a", False),
        ("https://index.docker.io/v1/", "busybox", True),
        ("quay.io", "gcr.io/a", False),
        ("quay.io:5000", "quay.io/a", False),
    ],
)
def test_a_key_fits_host_and_path(server: str, image: str, fits: bool) -> None:
    assert bool(logins_for(image, [secret(**{server: ENTRY})])) == fits


def test_the_most_particular_key_comes_first() -> None:
    keys = {"quay.io": {"username": "all"}, "quay.io/team": {"username": "team"}}
    assert [login.username for login in logins_for("quay.io/team/x", [secret(**keys)])] == ["team", "all"]


def test_name_and_password_may_be_one_word() -> None:
    auth = base64.b64encode(b"me:se:cret").decode()
    [login] = logins_for("quay.io/a", [secret(**{"quay.io": {"auth": auth, "identitytoken": "t"}})])
    assert login == RegistryLogin("me", "se:cret", server="quay.io", identity_token="t")


def test_the_older_form_of_secrets_is_known() -> None:
    content = {".dockercfg": json.dumps({"quay.io": ENTRY}).encode()}
    assert [login.password for login in logins_for("quay.io/a", [content])] == ["p"]


@pytest.mark.parametrize("content", [b"no json", b"[]", b'{"auths": []}', b'{"auths": {"quay.io": "x"}}'])
def test_what_is_no_configuration_opens_nothing(content: bytes) -> None:
    assert logins_for("quay.io/a", [{".dockerconfigjson": content}, {}]) == ()


def test_a_broken_word_is_no_name() -> None:
    [login] = logins_for("quay.io/a", [secret(**{"quay.io": {"auth": "!"}})])
    assert (login.username, login.password) == ("", "")


def test_what_is_null_is_not_given() -> None:
    entry = {"username": None, "password": None, "auth": base64.b64encode(b"me:secret").decode(), "identitytoken": None}
    [login] = logins_for("quay.io/a", [secret(**{"quay.io": entry}), {".dockerconfigjson": b'{"auths": null}'}])
    assert login == RegistryLogin("me", "secret", server="quay.io")


@on_virtual_clock
async def test_secrets_are_read_and_those_that_are_missing_are_told() -> None:
    pod = make_pod(image_pull_secrets=(LocalObjectReference("there"), LocalObjectReference("gone")))
    one = OnePod(pod)
    namespace = pod.metadata.namespace
    secret = Secret(metadata=ObjectMeta(name="there", namespace=namespace), data={"a": b"1"})
    await one.client.resource(SECRETS, namespace).create(secret)
    told: list[tuple[str, str, str]] = []
    found = await PullSecrets(one.client, pod).contents(lambda *event: told.append(event))
    assert found == [{"a": b"1"}]
    text = "Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed."
    assert told == [("Warning", "FailedToRetrieveImagePullSecret", text)]
