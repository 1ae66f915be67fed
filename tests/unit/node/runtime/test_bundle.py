"""Bundles of containers for crun and runc (docs/spec/node.md §18 and §20)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.node.runtime.bundle import default_filter, oci_spec, seccomp_filter
from cathedra.node.runtime.runtime import BindMount, ContainerSpec, PodIdentity, ResourceLimits, SeccompSource


def spec(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"id": "i", "pod": PodIdentity("ns", "p", "u"), "name": "c", "attempt": 0, "argv": ("sh",)}
    return oci_spec(ContainerSpec(**(base | changes)), "/root-of-it", "/group/i")


def test_a_container_has_namespaces_of_its_own_except_for_the_network() -> None:
    made = spec(hostname="p")
    assert {n["type"] for n in made["linux"]["namespaces"]} == {"ipc", "uts", "mount", "pid"}
    assert made["hostname"] == "p"
    assert made["root"] == {"path": "/root-of-it", "readonly": False}
    assert made["linux"]["cgroupsPath"] == "/group/i"
    assert {"type": "pid"} not in spec(host_pid=True)["linux"]["namespaces"]
    assert spec(read_only_root=True)["root"]["readonly"]


def test_variables_of_the_container_win_over_those_that_everybody_has() -> None:
    environment = dict(v.split("=", 1) for v in spec(environment=(("PATH", "/x"), ("A", "1")))["process"]["env"])
    assert (environment["PATH"], environment["A"], environment["HOME"]) == ("/x", "1", "/root")


def test_mounts_of_the_pod_come_after_the_fresh_ones_and_say_whether_they_can_be_written() -> None:
    made = spec(mounts=(BindMount("/host", "/data", read_only=True), BindMount("/h2", "/w", propagation="rslave")))
    by_place = {mount["destination"]: mount for mount in made["mounts"]}
    assert {"/proc", "/dev", "/sys", "/tmp", "/run"} <= set(by_place)
    assert by_place["/data"]["options"] == ["rbind", "rprivate", "ro"]
    assert by_place["/w"]["options"] == ["rbind", "rslave", "rw"]
    with_termination_message = spec(termination_log="/t/0.termination", termination_path="/dev/last-words")["mounts"][
        -1
    ]
    assert (with_termination_message["source"], with_termination_message["destination"]) == (
        "/t/0.termination",
        "/dev/last-words",
    )


def test_limits_are_in_the_kernels_units() -> None:
    limits = ResourceLimits(cpu_shares=512, cpu_milli=1500, memory=1 << 20, huge_pages={"2MB": 4}, oom_score_adj=7)
    made = spec(limits=limits)
    resources = made["linux"]["resources"]
    assert resources["cpu"] == {"shares": 512, "quota": 150_000, "period": 100_000}
    assert resources["memory"] == {"limit": 1 << 20}
    assert resources["hugepageLimits"] == [{"pageSize": "2MB", "limit": 4}]
    assert made["process"]["oomScoreAdj"] == 7
    bare = spec()
    assert "memory" not in bare["linux"]["resources"]
    assert "oomScoreAdj" not in bare["process"]


def test_devices_are_closed_but_for_a_few_unless_the_container_is_privileged() -> None:
    rules = spec()["linux"]["resources"]["devices"]
    assert rules[0] == {"allow": False, "access": "rwm"}
    assert {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"} in rules
    assert spec(privileged=True)["linux"]["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert "maskedPaths" not in spec(privileged=True)["linux"]


@pytest.mark.parametrize(
    ("changes", "has", "has_not"),
    [
        ({}, {"CAP_CHOWN"}, {"CAP_SYS_ADMIN"}),
        ({"added_capabilities": ("SYS_ADMIN",)}, {"CAP_CHOWN", "CAP_SYS_ADMIN"}, set()),
        ({"dropped_capabilities": ("ALL",), "added_capabilities": ("CAP_CHOWN",)}, {"CAP_CHOWN"}, {"CAP_KILL"}),
        ({"dropped_capabilities": ("KILL",)}, {"CAP_CHOWN"}, {"CAP_KILL"}),
        ({"privileged": True}, {"CAP_SYS_ADMIN", "CAP_SYS_MODULE"}, set()),
    ],
)
def test_capabilities_are_the_usual_ones_with_changes(
    changes: dict[str, Any], has: set[str], has_not: set[str]
) -> None:
    found = set(spec(**changes)["process"]["capabilities"]["bounding"])
    assert has <= found
    assert not has_not & found


def test_who_is_not_root_has_no_capabilities_at_work() -> None:
    process = spec(uid=1000, gid=5, groups=(7, 8))["process"]
    assert process["user"] == {"uid": 1000, "gid": 5, "additionalGids": [7, 8]}
    assert set(process["capabilities"]) == {"bounding"}


def allowed(capabilities: tuple[str, ...]) -> set[str]:
    """The calls that are allowed whatever their arguments."""
    rules = default_filter(capabilities)["syscalls"]
    return {
        name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule for name in rule["names"]
    }


def rules_of(name: str, capabilities: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return [rule for rule in default_filter(capabilities)["syscalls"] if name in rule["names"]]


def test_what_is_not_named_fails() -> None:
    found = default_filter(())
    assert (found["defaultAction"], found["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert {"read", "openat", "execve", "futex"} <= allowed(())
    assert not {"mount", "unshare", "bpf", "reboot", "keyctl", "io_uring_setup"} & allowed(())


@pytest.mark.parametrize(
    ("capability", "call"),
    [("CAP_SYS_ADMIN", "mount"), ("CAP_SYS_CHROOT", "chroot"), ("CAP_SYS_TIME", "settimeofday"), ("CAP_BPF", "bpf")],
)
def test_capabilities_bring_their_calls(capability: str, call: str) -> None:
    assert call not in allowed(())
    assert call in allowed((capability,))


def test_new_namespaces_are_for_administrators() -> None:
    [clone] = rules_of("clone")
    assert clone["args"] == [{"index": 0, "value": 0x7E020000, "op": "SCMP_CMP_MASKED_EQ", "valueTwo": 0}]
    [clone3] = rules_of("clone3")
    assert (clone3["action"], clone3["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert "args" not in rules_of("clone", ("CAP_SYS_ADMIN",))[0]


def test_sockets_of_all_families_but_one_may_be_opened() -> None:
    [socket] = rules_of("socket")
    assert socket["args"] == [{"index": 0, "value": 40, "op": "SCMP_CMP_NE"}]


def test_a_profile_may_be_a_file_of_the_node_or_none_at_all(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
    assert seccomp_filter(SeccompSource("Localhost", str(file)), ()) == {"defaultAction": "SCMP_ACT_ALLOW"}
    assert seccomp_filter(SeccompSource(), ()) is None
    assert seccomp_filter(SeccompSource("RuntimeDefault"), ("CAP_BPF",)) == default_filter(("CAP_BPF",))
    file.write_text("[]")
    with pytest.raises(ValueError, match="is no seccomp profile"):
        seccomp_filter(SeccompSource("Localhost", str(file)), ())
    with pytest.raises(OSError, match="No such file"):
        seccomp_filter(SeccompSource("Localhost", str(tmp_path / "gone")), ())
