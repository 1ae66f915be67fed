"""Requests that are long, or whose answer or comparison was."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from tools.attack.client import User
from tools.attack.measuring import Attack, Reached, Scene
from tools.attack.target import ADMIN, MEMBER, NAMESPACE, NOBODY, STRANGER

__all__ = ["ATTACKS"]

PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def pod(name: str, claims: Iterable[Any] = (), **container: Any) -> dict[str, Any]:
    """A pod that no node takes."""
    spec = {
        "containers": [{"name": "c", "image": "i", **container}],
        "resourceClaims": list(claims),
        "nodeSelector": {"no": "node"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def variables(count: int, value: str) -> list[dict[str, str]]:
    """Entries of a container's environment."""
    return [{"name": f"n{number}", "value": value} for number in range(count)]


async def refused(user: User, method: str, path: str, body: Any, content_type: str = "application/json") -> None:
    """Send what must be refused.

    Raises:
        Reached: it is accepted, or the answer is larger than the request.
    """
    raw = json.dumps(body).encode()
    answer = await user.send(method, path, raw, content_type)
    if answer.status < 400:
        raise Reached(f"{method} was answered {answer.status}")
    if len(answer.body) > max(len(raw), 1 << 20):
        raise Reached(f"a request of {len(raw)} bytes was answered with {len(answer.body)}")


async def changed_variables(scene: Scene) -> None:
    """A dry run of an update that changes each entry of a pod's environment."""
    user = scene.cluster.member
    await user.create(PODS, pod("variables", env=variables(10_000, "a")))
    scene.begin()
    await refused(user, "PUT", f"{PODS}/variables?dryRun=All", pod("variables", env=variables(10_000, "b")))


async def strategic_patch(scene: Scene) -> None:
    """A strategic merge patch whose list has to be merged by key."""
    user = scene.cluster.member
    await user.create(PODS, pod("patched", env=variables(10_000, "a")))
    scene.begin()
    body = {"spec": {"containers": [{"name": "c", "env": variables(30_000, "c")}]}}
    await refused(user, "PATCH", f"{PODS}/patched", body, "application/strategic-merge-patch+json")


async def used_claims(scene: Scene) -> None:
    """A container that uses 20,000 claims."""
    scene.begin()
    body = pod(
        "claims",
        [{"name": "a", "resourceClaimName": "x"}],
        resources={"claims": [{"name": f"n{number}"} for number in range(20_000)]},
    )
    await refused(scene.cluster.member, "POST", PODS, body)


async def unknown_claims(scene: Scene) -> None:
    """Each use of a claim that the pod does not have was answered with the names of all that it has."""
    scene.begin()
    claims = [{"name": f"c{number}", "resourceClaimName": "x"} for number in range(8000)]
    used = [{"name": f"u{number}"} for number in range(8000)]
    await refused(scene.cluster.member, "POST", PODS, pod("unknown", claims, resources={"claims": used}))


async def slice_update(scene: Scene) -> None:
    """An update with too many devices of a slice that has as many attributes as it may have."""
    user = scene.cluster.admin
    spec = {
        "driver": "attack.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "none",
    }
    attributes = {f"a{number}": {"int": number} for number in range(32)}
    devices: list[Any] = [{"name": f"d{number}", "attributes": attributes} for number in range(128)]
    made = await user.create(SLICES, {"metadata": {"name": "attacked"}, "spec": {**spec, "devices": devices}})
    many = [{"name": f"d{number}", "attributes": {"a": {"int": 1}}} for number in range(16_000)]
    scene.begin()
    await refused(user, "PUT", f"{SLICES}/attacked", made.json() | {"spec": {**spec, "devices": many}})


async def access_reviews(scene: Scene) -> None:
    """Questions about resources with long names, of an account without a role."""
    connection = scene.hold(await scene.cluster.stranger.connect())
    scene.begin()
    for number in range(300):
        asked = {"namespace": "default", "verb": "get", "resource": f"{number}{'x' * 2_900_000}"}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        await connection.send("POST", REVIEWS, body)


async def upgrade_heads(scene: Scene) -> None:
    """Long heads with an ``Upgrade`` header, without credentials."""
    padding = {f"X_Padding_{number}": "x" * 8000 for number in range(100)}
    scene.begin()
    for _ in range(500):
        connection = await scene.cluster.nobody.connect()
        connection.request("GET", "/api/session", Connection="Upgrade", Upgrade="cathedra-session/2", **padding)
        await connection.head()
        connection.abort()


async def long_paths(scene: Scene) -> None:
    """Paths that differ from each other, of an account without a role."""
    connection = scene.hold(await scene.cluster.stranger.connect())
    scene.begin()
    for number in range(3000):
        await connection.send("GET", f"/api/v1/namespaces/{number}{'x' * 60_000}/pods")


ATTACKS: Final = (
    Attack(
        "changed-variables",
        "dry-run PUT of a pod with changed environment entries",
        "10,000 entries",
        MEMBER,
        changed_variables,
    ),
    Attack(
        "strategic-patch", "strategic merge patch of environment entries", "30,000 entries", MEMBER, strategic_patch
    ),
    Attack("used-claims", "a container that uses claims", "20,000 claims", MEMBER, used_claims),
    Attack("unknown-claims", "a pod's claims, and uses of unknown ones", "8,000 and 8,000", MEMBER, unknown_claims),
    Attack(
        "slice-update",
        "PUT of devices over a full ResourceSlice",
        "16,000 devices over 128 × 32 attributes",
        ADMIN,
        slice_update,
    ),
    Attack("access-reviews", "SelfSubjectAccessReviews with long names", "300 × 2.9 MB", STRANGER, access_reviews),
    Attack("upgrade-heads", "requests with `Upgrade` and a long head", "500 × 800 kB", NOBODY, upgrade_heads),
    Attack("long-paths", "long paths", "3,000 × 60 kB", STRANGER, long_paths),
)
