"""What a container needs to use a GPU, as NVIDIA's toolkit writes it into CDI documents.

For every container: the nodes that all GPUs share, the libraries and programs of the kernel driver's version, and the
cache of the dynamic linker brought up to date. For each device: its node, and with a partition the nodes by which the
kernel knows who may use it. What is not on this machine is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cathedra.driver import DeviceNode, DriverError, Edits, Hook, Mount
from cathedra.drivers.nvidia.nvml import Gpu

__all__ = ["common_edits", "gpu_edits", "partition_edits"]

_SHARED_NODES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_LIBRARY_FOLDERS: Final = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64")
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
_CDI_HOOK: Final = "usr/bin/nvidia-cdi-hook"
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "bind")


def common_edits(version: str, root: Path = Path("/")) -> Edits:
    """For every container that gets a device of this driver; ``version`` is the kernel driver's, as NVML spells it."""
    libraries = [
        path
        for folder in _LIBRARY_FOLDERS
        for pattern in ("libcuda.so", "libcudadebugger.so", "libnvidia-*.so", "libnvcuvid.so")
        for path in sorted((root / folder).glob(f"{pattern}.{version}"))
    ]
    programs = [path for name in _PROGRAMS if (path := root / "usr/bin" / name).exists()]
    nodes = [DeviceNode(path=f"/dev/{name}") for name in _SHARED_NODES if (root / "dev" / name).exists()]
    folders = list(dict.fromkeys(f"/{path.parent.relative_to(root)}" for path in libraries))
    return Edits(
        # Tells an older hook of the toolkit, if there is one, to keep away.
        env={"NVIDIA_VISIBLE_DEVICES": "void"},
        device_nodes=nodes,
        mounts=[_mount(path, root) for path in (*libraries, *programs)],
        hooks=[_update_cache(folders)] if folders and (root / _CDI_HOOK).exists() else [],
    )


def gpu_edits(gpu: Gpu) -> Edits:
    """For a whole GPU."""
    return Edits(device_nodes=[DeviceNode(path=f"/dev/nvidia{gpu.minor}")])


def partition_edits(gpu: Gpu, instance: int, compute: int, root: Path = Path("/")) -> Edits:
    """For a partition: the GPU's node, and those of its two access rights.

    Raises:
        DriverError: the kernel driver does not say which nodes these are.
    """
    minors = _access_minors(root)
    wanted = (f"gpu{gpu.minor}/gi{instance}/access", f"gpu{gpu.minor}/gi{instance}/ci{compute}/access")
    missing = [name for name in wanted if name not in minors]
    if missing:
        raise DriverError(f"/proc/driver/nvidia-caps/mig-minors does not name {missing[0]}")
    nodes = [f"/dev/nvidia-caps/nvidia-cap{minors[name]}" for name in wanted]
    return Edits(device_nodes=[DeviceNode(path=f"/dev/nvidia{gpu.minor}"), *(DeviceNode(path=p) for p in nodes)])


def _access_minors(root: Path) -> dict[str, str]:
    try:
        lines = (root / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(maxsplit=1) for line in lines if len(line.split()) == 2)


def _mount(path: Path, root: Path) -> Mount:
    inside = f"/{path.relative_to(root)}"
    return Mount(host_path=inside, container_path=inside, options=_READ_ONLY)


def _update_cache(folders: list[str]) -> Hook:
    words = [word for folder in folders for word in ("--folder", folder)]
    program = f"/{_CDI_HOOK}"
    return Hook(hook_name="createContainer", path=program, args=("nvidia-cdi-hook", "update-ldcache", *words))
