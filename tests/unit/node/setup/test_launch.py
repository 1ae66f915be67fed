"""From a container of a pod's spec to what a runtime is asked to start."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import (
    Capabilities,
    Container,
    PodSecurityContext,
    SecurityContext,
)
from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.node.setup.launch import IDLE_SCRIPT, container_argv, container_id, container_spec
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import FACTS


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        (Container(name="c", command=("echo", "$(A)"), args=("-n",)), ("echo", "1", "-n")),
        (Container(name="c", args=("serve", "$(A)")), ("serve", "1")),
        (Container(name="c", image="img", args=("--flag",)), ("sh", "-c", IDLE_SCRIPT, "img")),
        (Container(name="c"), ("sh", "-c", IDLE_SCRIPT, "c")),
    ],
)
def test_the_command_line_is_what_most_images_would_run(container: Container, argv: tuple[str, ...]) -> None:
    assert container_argv(container, {"A": "1"}) == argv


def test_an_id_names_one_run_of_one_container() -> None:
    ids = {container_id(*which) for which in (("u", "c", 0, 0), ("u", "c", 1, 0), ("u", "c", 0, 1), ("u", "d", 0, 0))}
    assert len(ids) == 4
    assert container_id("u", "c", 0, 0) in ids


def spec_of(container: Container, shared: PodSecurityContext | None = None) -> ContainerSpec:
    pod = make_pod("p", container, security_context=shared)
    return container_spec(
        pod,
        container,
        attempt=0,
        generation=0,
        environment={},
        volumes={},
        cdi_devices=("x.com/d=1",),
        directories=None,
        node=FACTS,
    )


def test_a_containers_own_security_settings_count_before_the_pods() -> None:
    shared = PodSecurityContext(run_as_user=5, run_as_group=6, fs_group=7, supplemental_groups=(8,))
    made = spec_of(Container(name="c", security_context=SecurityContext(run_as_user=0)), shared)
    assert (made.uid, made.gid, made.groups) == (0, 6, (8, 7))
    assert made.cdi_devices == ("x.com/d=1",)
    bare = spec_of(Container(name="c"))
    assert (bare.uid, bare.gid, bare.groups, bare.privileged) == (None, None, (), False)


def test_capabilities_and_restrictions_are_handed_on() -> None:
    context = SecurityContext(
        privileged=True,
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=Capabilities(add=("NET_ADMIN",), drop=("ALL",)),
    )
    made = spec_of(Container(name="c", security_context=context, tty=True, stdin=True))
    assert (made.privileged, made.no_new_privileges, made.read_only_root) == (True, True, True)
    assert (made.added_capabilities, made.dropped_capabilities) == (("NET_ADMIN",), ("ALL",))
    assert (made.tty, made.stdin) == (True, True)
