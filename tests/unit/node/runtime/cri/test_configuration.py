"""Configuration of sandboxes and containers for a container runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra._proto import cri_v1_pb2 as api
from cathedra.cdi.spec import CDIError
from cathedra.node.runtime.cri.configuration import (
    NODE,
    DeviceEdits,
    cgroup_parent,
    container_config,
    directory_label,
    namespaces,
    pod_of,
    resolve_devices,
    sandbox_config,
    with_user,
)
from cathedra.node.runtime.runtime import (
    BindMount,
    ContainerSpec,
    Image,
    ImageFailure,
    PodIdentity,
    RegistryLogin,
    ResourceLimits,
    RuntimeFailure,
    SandboxSpec,
    SeccompSource,
)

POD = PodIdentity("ns", "p", "u")
SANDBOX = SandboxSpec(POD, hostname="h", log_directory="/logs", labels={"app": "a"}, annotations={"n": "1"})


def container(**settings: object) -> ContainerSpec:
    return ContainerSpec("id", POD, "c", 2, (), **settings)  # type: ignore[arg-type]  # the test's own names


def test_nodes_have_labels_and_cgroups_of_their_own() -> None:
    one, other = directory_label(Path("/one")), directory_label(Path("/other"))
    assert one != other
    assert cgroup_parent(one, systemd=False) == f"/cathedra-{one}"
    assert cgroup_parent(one, systemd=True) == f"cathedra-{one}.slice"


def test_a_sandbox_carries_the_pods_labels_and_a_kubelets() -> None:
    config = sandbox_config(SANDBOX, "node", "/cg")
    assert dict(config.labels) == {
        "app": "a",
        "io.kubernetes.pod.name": "p",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "u",
        NODE: "node",
    }
    assert pod_of(config.labels) == POD
    assert (config.hostname, config.linux.cgroup_parent, dict(config.annotations)) == ("h", "/cg", {"n": "1"})
    assert not config.HasField("dns_config")


def test_a_sandbox_in_the_nodes_network_has_the_nodes_name() -> None:
    spec = SandboxSpec(POD, hostname="h", host_network=True, nameservers=("1.1.1.1",), sysctls={"k": "v"})
    config = sandbox_config(spec, "node", "/cg")
    assert config.hostname == ""
    assert config.linux.security_context.namespace_options.network == api.NODE
    assert (list(config.dns_config.servers), dict(config.linux.sysctls)) == (["1.1.1.1"], {"k": "v"})


def test_processes_are_the_containers_own_unless_shared_with_pod_or_node() -> None:
    assert namespaces(SANDBOX).pid == api.CONTAINER
    assert namespaces(SandboxSpec(POD, shared_pid=True)).pid == api.POD
    assert namespaces(SandboxSpec(POD, host_pid=True, host_ipc=True)) == api.NamespaceOption(
        network=api.POD, pid=api.NODE, ipc=api.NODE
    )


def test_limits_are_in_the_kernels_units() -> None:
    limits = ResourceLimits(cpu_shares=512, cpu_milli=250, memory=1024, huge_pages={"2MB": 4}, oom_score_adj=-997)
    found = container_config(container(limits=limits), SANDBOX, DeviceEdits(), "n").linux.resources
    assert (found.cpu_shares, found.cpu_quota, found.cpu_period) == (512, 25_000, 100_000)
    assert (found.memory_limit_in_bytes, found.oom_score_adj) == (1024, -997)
    assert [(page.page_size, page.limit) for page in found.hugepage_limits] == [("2MB", 4)]
    bare = container_config(container(), SANDBOX, DeviceEdits(), "n").linux.resources
    assert (bare.cpu_quota, bare.cpu_period, bare.memory_limit_in_bytes) == (0, 0, 0)


def test_mounts_of_devices_replace_others_at_their_place_and_parents_come_first() -> None:
    mounts = (BindMount("/v/deep", "/a/b/c"), BindMount("/v/x", "/opt", propagation="rshared", read_only=True))
    edits = DeviceEdits(mounts=(api.Mount(container_path="/a", host_path="/d"),))
    spec = container(mounts=(*mounts, BindMount("/v/y", "/a")), termination_log="/t/log")
    found = container_config(spec, SANDBOX, edits, "n").mounts
    assert [(mount.host_path, mount.container_path) for mount in found] == [
        ("/v/x", "/opt"),
        ("/d", "/a"),
        ("/t/log", "/dev/termination-log"),
        ("/v/deep", "/a/b/c"),
    ]
    assert (found[0].propagation, found[0].readonly) == (api.PROPAGATION_BIDIRECTIONAL, True)


def test_environment_of_devices_replaces_the_containers() -> None:
    spec = container(environment=(("A", "1"), ("GPU", "none")), hostname="h")
    found = container_config(spec, SANDBOX, DeviceEdits(environment=(("GPU", "0"),), names=("x.com/d=0",)), "n")
    assert {pair.key: pair.value for pair in found.envs} == {"HOSTNAME": "h", "A": "1", "GPU": "0"}
    assert [device.name for device in found.CDI_devices] == ["x.com/d=0"]


def test_security_settings_are_handed_on() -> None:
    spec = container(
        uid=5,
        gid=6,
        groups=(7, 8),
        privileged=True,
        added_capabilities=("NET_ADMIN",),
        dropped_capabilities=("ALL",),
        no_new_privileges=True,
        read_only_root=True,
        seccomp=SeccompSource("Localhost", "/p/x.json"),
    )
    found = container_config(spec, SANDBOX, DeviceEdits(groups=(8, 9)), "n").linux.security_context
    assert (found.run_as_user.value, found.run_as_group.value) == (5, 6)
    assert list(found.supplemental_groups) == [7, 8, 9]
    assert (found.privileged, found.no_new_privs, found.readonly_rootfs) == (True, True, True)
    assert list(found.capabilities.add_capabilities) == ["NET_ADMIN"]
    assert list(found.capabilities.drop_capabilities) == ["ALL"]
    assert (found.seccomp.profile_type, found.seccomp.localhost_ref) == (api.SecurityProfile.Localhost, "/p/x.json")
    bare = container_config(container(), SANDBOX, DeviceEdits(), "n").linux.security_context
    assert bare.seccomp.profile_type == api.SecurityProfile.Unconfined
    assert not bare.HasField("run_as_user")


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


NAME = "example.com/gpu=0"


def directory(place: Path, edits: dict[str, Any], *, name: str = "0") -> Path:
    place.mkdir(exist_ok=True)
    device = {"name": name, "containerEdits": edits}
    document = {"cdiVersion": "1.1.0", "kind": "example.com/gpu", "devices": [device]}
    (place / f"{name}.json").write_text(json.dumps(document))
    return place


def test_without_devices_nothing_is_looked_at() -> None:
    assert resolve_devices((), (), ()) == DeviceEdits()


def test_edits_are_made_for_a_runtime_that_resolves_none(tmp_path: Path) -> None:
    edits = {
        "env": ["GPU=0", "EMPTY="],
        "deviceNodes": [{"path": "/dev/gpu0"}, {"path": "/dev/a", "hostPath": "/dev/null", "permissions": "r"}],
        "mounts": [{"hostPath": "/lib/gpu", "containerPath": "/opt/gpu", "options": ["ro", "rbind", "rslave"]}],
        "additionalGids": [0, 44],
    }
    found = resolve_devices((NAME,), (), (directory(tmp_path, edits),))
    assert found.environment == (("GPU", "0"), ("EMPTY", ""))
    assert found.devices == (
        api.Device(container_path="/dev/gpu0", host_path="/dev/gpu0", permissions="rwm"),
        api.Device(container_path="/dev/a", host_path="/dev/null", permissions="r"),
    )
    [mount] = found.mounts
    assert (mount.host_path, mount.container_path, mount.readonly) == ("/lib/gpu", "/opt/gpu", True)
    assert mount.propagation == api.PROPAGATION_HOST_TO_CONTAINER
    assert (found.groups, found.names, found.left_out) == ((44,), (), ())


def test_edits_that_have_no_place_in_the_description_are_named(tmp_path: Path) -> None:
    edits = {
        "hooks": [{"hookName": "createContainer", "path": "/bin/hook"}],
        "mounts": [{"hostPath": "tmpfs", "containerPath": "/scratch", "type": "tmpfs"}],
        "netDevices": [{"hostInterfaceName": "eth7", "name": "net1"}],
        "intelRdt": {"closID": "c"},
    }
    found = resolve_devices((NAME,), (), (directory(tmp_path, edits),))
    assert found.left_out == (
        "createContainer hook /bin/hook",
        "tmpfs mount /scratch",
        "network device net1",
        "intelRdt",
    )
    assert found.mounts == ()


def test_a_runtime_gets_the_names_of_its_own_directories_and_of_none(tmp_path: Path) -> None:
    theirs = directory(tmp_path / "theirs", {"env": ["A=1"]})
    ours = directory(tmp_path / "ours", {"env": ["B=1"]}, name="1")
    names = (NAME, "example.com/gpu=1", "example.com/gpu=9")
    found = resolve_devices(names, (theirs,), (theirs, ours))
    assert found.names == (NAME, "example.com/gpu=9")
    assert found.environment == (("B", "1"),)


def test_unknown_devices_are_an_error_where_nobody_else_will_say_so(tmp_path: Path) -> None:
    with pytest.raises(CDIError, match=r"unresolvable CDI devices example\.com/gpu=9"):
        resolve_devices(("example.com/gpu=9",), (), (tmp_path,))
