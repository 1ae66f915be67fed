"""Which system calls a container may make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.node.runtime.runtime import SeccompSource
from cathedra.node.runtime.seccomp import default_filter, seccomp_filter


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
