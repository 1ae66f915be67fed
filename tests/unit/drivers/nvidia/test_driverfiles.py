"""Libraries of the kernel driver are found wherever a machine has them."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from cathedra.driver import OptionError
from cathedra.drivers.nvidia.driverfiles import find_driver_files

VERSION = "580.159.04"


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name.lstrip("/").replace("VERSION", VERSION)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def placed(root: Path, driver_root: str = "") -> dict[str, str]:
    """Host path → container path of everything that is found."""
    found = find_driver_files(VERSION, root, Path(driver_root) if driver_root else None)
    return {str(one.host): str(one.container) for one in (*found.libraries, *found.programs)}


@pytest.mark.parametrize(
    ("host", "container"),
    [
        ("/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"),
        ("/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"),
        ("/home/kubernetes/bin/nvidia/lib64", "/usr/local/nvidia/lib64"),
        ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib64"),
    ],
    ids=["Debian", "GPU operator", "COS", "mounted"],
)
def test_known_places_are_searched(tmp_path: Path, host: str, container: str) -> None:
    put(tmp_path, f"{host}/libcuda.so.VERSION", f"{host}/libnvidia-ml.so.VERSION", f"{host}/libcuda.so.1.2.3")
    assert placed(tmp_path) == {
        f"{host}/{name}.{VERSION}": f"{container}/{name}.{VERSION}" for name in ("libcuda.so", "libnvidia-ml.so")
    }


def test_the_library_that_nvml_was_loaded_from_leads_to_the_others(tmp_path: Path) -> None:
    """As on a machine whose driver is a read-only mount of its own, with scripts in /usr/bin that call its programs."""
    put(tmp_path, "/opt/gpu/lib64/libcuda.so.VERSION", "/opt/gpu/bin/nvidia-smi", "/usr/bin/nvidia-smi")
    put(tmp_path, "/proc/self/maps")
    (tmp_path / "opt/gpu/lib").symlink_to("lib64")
    line = f"7f1c-7f1d r-xp 00000000 08:01 42                         /opt/gpu/lib64/libnvidia-ml.so.{VERSION}\n"
    (tmp_path / "proc/self/maps").write_text(line)
    assert placed(tmp_path) == {
        f"/opt/gpu/lib64/libcuda.so.{VERSION}": f"/opt/gpu/lib64/libcuda.so.{VERSION}",
        "/opt/gpu/bin/nvidia-smi": "/opt/gpu/bin/nvidia-smi",
    }


def test_the_linkers_cache_is_read(tmp_path: Path) -> None:
    put(tmp_path, "/opt/cached/libcuda.so.VERSION", "/etc/ld.so.cache")
    (tmp_path / "etc/ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\0libcuda.so.1\0/opt/cached/libcuda.so.1\0")
    assert list(placed(tmp_path)) == [f"/opt/cached/libcuda.so.{VERSION}"]


def test_a_root_that_is_named_is_the_only_place(tmp_path: Path) -> None:
    put(tmp_path, "/usr/lib64/libcuda.so.VERSION", "/opt/nv/lib64/libcuda.so.VERSION", "/opt/nv/bin/nvidia-smi")
    assert placed(tmp_path, "/opt/nv") == {
        f"/opt/nv/lib64/libcuda.so.{VERSION}": f"/usr/local/nvidia/lib64/libcuda.so.{VERSION}",
        "/opt/nv/bin/nvidia-smi": "/usr/local/nvidia/bin/nvidia-smi",
    }
    with pytest.raises(OptionError, match="searched: /nowhere"):
        placed(tmp_path, "/nowhere")


def test_another_version_is_not_the_kernels(tmp_path: Path) -> None:
    put(tmp_path, "/usr/lib64/libcuda.so.570.1.1")
    with pytest.raises(OptionError, match=r"libcuda\.so\.580\.159\.04, .* searched: /usr/lib64; name the directory"):
        placed(tmp_path)


def test_folders_are_those_of_the_container(tmp_path: Path) -> None:
    put(tmp_path, "/run/nvidia/driver/usr/lib64/libcuda.so.VERSION")
    found = find_driver_files(VERSION, tmp_path)
    assert found.libraries[0].container.parent == PurePosixPath("/usr/lib64")
