"""A cluster that lacks disk, permission to write, descriptors, processes or memory for a while, or has a damaged file.

Each scenario takes something away, checks that a clear line reports it and that nothing acknowledged is lost, gives it
back, and checks that the cluster works again. ``python -m tools.kills.shortages`` prints a table; it needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from cathedra.api.status import StatusError
from cathedra.client.resources import CONFIGMAPS, PODS, RESOURCECLAIMS
from tools.kills.checks import Scenario, again, config_map, delayed_pod, expect, fails, logged, writes
from tools.kills.exhaustion import EXHAUSTIONS, LARGE
from tools.kills.tables import Shortage, shortage_table, write_table
from tools.kills.world import Violation, World, world

__all__ = ["SCENARIOS", "main", "run"]

DISK: Final = "256m"
BALLAST: Final = "ballast"


async def disk_of_the_store_full(place: World) -> str:
    """Writes are refused, reads go on, and what was acknowledged is there."""
    acknowledged, line = [], ""
    with _full(place.data):
        for number in range(200):
            try:
                made = config_map(f"full-{number}", LARGE)
                await place.of(CONFIGMAPS).create(made)
                acknowledged.append(f"full-{number}")
            except StatusError as error:
                line = str(error)
                break
        if not line:
            raise Violation("a full disk refuses no write")
        await expect(place, acknowledged)
    await place.until("a write succeeds again", lambda: writes(place))
    await expect(place, acknowledged)
    for name in acknowledged:
        await place.delete(CONFIGMAPS, name)
    return line


async def start_on_read_only(place: World) -> str:
    """A start on a read-only data directory ends with one line."""
    server = place.program("API server")
    server.stop()
    _mount("-o", "remount,ro", str(place.data))
    try:
        line = await fails(server)
    finally:
        _mount("-o", "remount,rw", str(place.data))
    await again(server)
    return line


async def store_read_only_under_the_server(place: World) -> str:
    """The file system of a running server becomes read-only: writes are refused, reads go on, and readyz names it."""
    server = place.program("API server")
    server.stop()
    with _on_ext4(place.data, place.folder) as device:
        await again(server)
        try:
            await place.until("a write succeeds", lambda: writes(place))
            await place.of(CONFIGMAPS).create(config_map("kept", "1"))
            Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")  # noqa: ASYNC240
            line = await _refused(place)
            await expect(place, ["kept"])
            ready = await place.readiness()
            if "[-]etcd failed" not in ready:
                raise Violation(f"readyz answers {ready!r}")
            await logged(server, "no write can be stored")
        finally:
            server.stop()
    await again(server)
    await place.until("a write succeeds again", lambda: writes(place))
    await expect(place, ["kept"])
    await place.delete(CONFIGMAPS, "kept")
    return line


async def disk_of_the_node_full(place: World) -> str:
    """A pod waits with an event that names the reason, and runs when there is room again."""
    return await delayed_pod(place, _full(place.root), "No space left on device")


async def node_read_only(place: World) -> str:
    """A pod waits while the directory of node and driver is read-only, and then runs."""
    return await delayed_pod(place, _read_only(place.root), "Read-only file system")


async def store_truncated(place: World) -> str:
    """A start on half a database ends with one line; with the file brought back, everything is there."""
    return await _damaged(place, "API server", place.data / "objects.sqlite", lambda data: data[: len(data) // 2])


async def store_zeros(place: World) -> str:
    """The same with zeros."""
    return await _damaged(place, "API server", place.data / "objects.sqlite", lambda data: bytes(len(data)))


async def store_null(place: World) -> str:
    """The same with the JSON value null."""
    return await _damaged(place, "API server", place.data / "objects.sqlite", lambda _: b"null")


async def store_emptied(place: World) -> str:
    """An empty file is no new store if writes were acknowledged."""
    return await _damaged(place, "API server", place.data / "objects.sqlite", lambda _: b"")


async def node_checkpoint_truncated(place: World) -> str:
    """The node agent does not start on half a checkpoint: it would forget prepared claims."""
    return await _damaged(place, "node agent", place.root / "dra_manager_state", lambda data: data[: len(data) // 2])


async def node_checkpoint_zeros(place: World) -> str:
    """The same with zeros."""
    return await _damaged(place, "node agent", place.root / "dra_manager_state", lambda data: bytes(len(data)))


async def node_checkpoint_null(place: World) -> str:
    """The same with the JSON value null."""
    return await _damaged(place, "node agent", place.root / "dra_manager_state", lambda _: b"null")


async def driver_checkpoint_truncated(place: World) -> str:
    """The driver keeps half a checkpoint aside, and learns from the node which claims are prepared."""
    return await _kept_aside(place, lambda data: data[: len(data) // 2])


async def driver_checkpoint_zeros(place: World) -> str:
    """The same with zeros."""
    return await _kept_aside(place, lambda data: bytes(len(data)))


async def driver_checkpoint_null(place: World) -> str:
    """The same with the JSON value null."""
    return await _kept_aside(place, lambda _: b"null")


SCENARIOS: Final[Mapping[str, Scenario]] = {
    function.__name__.replace("_", " "): function
    for function in (
        disk_of_the_store_full,
        start_on_read_only,
        store_read_only_under_the_server,
        disk_of_the_node_full,
        node_read_only,
        store_truncated,
        store_zeros,
        store_null,
        store_emptied,
        node_checkpoint_truncated,
        node_checkpoint_zeros,
        node_checkpoint_null,
        driver_checkpoint_truncated,
        driver_checkpoint_zeros,
        driver_checkpoint_null,
    )
} | dict(EXHAUSTIONS)


# Taking away and giving back.


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@contextmanager
def _full(folder: Path) -> Iterator[None]:
    """Fill the file system of a folder but for some kilobytes."""
    ballast = folder / BALLAST
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def _on_ext4(folder: Path, place: Path) -> Iterator[str]:
    """Move a folder's files to an ext4 of their own for a while. An error there makes it read-only, also while files
    are open, until it is mounted anew. Yield the name of its device."""
    image, aside = place / "ext4", place / "aside"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    aside.mkdir()
    _mount("-o", "loop,errors=remount-ro", str(image), str(aside))
    subprocess.run(["cp", "-a", f"{folder}/.", str(aside)], check=True)
    # What is not on the device yet is lost with the error.
    subprocess.run(["sync", "-f", str(aside)], check=True)
    device = subprocess.run(
        ["findmnt", "-no", "SOURCE", str(aside)], check=True, capture_output=True, text=True
    ).stdout.strip()
    _mount("--move", str(aside), str(folder))
    try:
        yield Path(device).name
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        # Mounting replays the journal, as a restart of the machine would.
        _mount("-o", "loop", str(image), str(aside))
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        subprocess.run(["cp", "-a", f"{aside}/.", str(folder)], check=True)
        subprocess.run(["umount", str(aside)], check=True)
        aside.rmdir()
        image.unlink()


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    # Sockets and logs are open for writing, so that a remount is refused; a bind mount can be read-only all the same.
    _mount("--bind", str(folder), str(folder))
    _mount("-o", "remount,ro,bind", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def _refused(place: World) -> str:
    """Return the refusal of a write."""
    try:
        await place.of(CONFIGMAPS).create(config_map("refused", "1"))
    except StatusError as error:
        return f"{error.code}: {error}"
    raise Violation("a write that cannot be stored is acknowledged")


async def _damaged(place: World, part: str, path: Path, damage: Callable[[bytes], bytes]) -> str:
    """Start a program on a damaged file; it must end with one line, and work again with the file as it was."""
    program = place.program(part)
    program.stop()
    kept = {one: one.read_bytes() for one in path.parent.glob(f"{path.name}*") if one.is_file()}
    path.write_bytes(damage(kept[path]))  # noqa: ASYNC240
    try:
        line = await fails(program)
    finally:
        program.stop()
        for one in path.parent.glob(f"{path.name}*"):
            if one not in kept:
                one.unlink()
        for one, content in kept.items():
            one.write_bytes(content)
    await again(program)
    return line


async def _kept_aside(place: World, damage: Callable[[bytes], bytes]) -> str:
    """Start the driver on a damaged checkpoint; it reports it, and prepares claims as before."""
    driver = place.program("driver")
    driver.stop()
    path = next(place.root.glob("plugins/*/checkpoint.json"))
    path.write_bytes(damage(path.read_bytes()))
    await again(driver)
    return await logged(driver, "checkpoint")


# The run.


@asynccontextmanager
async def _on_small_disks(folder: Path) -> AsyncIterator[World]:
    places = [folder / "data", folder / "node"]
    for one in places:
        one.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={DISK},mode=700", "none", str(one))
    try:
        async with world(folder, together=False) as place:
            # A fault point opens files, so that its process would lack descriptors, too.
            for program in place.programs:
                program.watched = False
                program.stop()
                await again(program)
            yield place
    finally:
        for one in places:
            await asyncio.to_thread(subprocess.run, ["umount", "--lazy", str(one)], check=False)


async def run(folder: Path, names: Sequence[str]) -> list[Shortage]:
    """Run scenarios one after the other in one world."""
    found: list[Shortage] = []
    async with _on_small_disks(folder) as place:
        await place.run_next()
        for name in names:
            found.append(await _outcome(place, name))
            print(f"{name}: {found[-1].line} {found[-1].violation}", flush=True)
    return found


async def _outcome(place: World, name: str) -> Shortage:
    """Run a scenario, and then a pod."""
    try:
        line = await SCENARIOS[name](place)
        for one in place.programs:
            if not one.running:
                await again(one)
        began = time.monotonic()
        await place.run_next()
        return Shortage(name, line, time.monotonic() - began)
    except (Violation, OSError) as error:  # a TimeoutError, too
        for one in place.programs:
            if not one.running:
                one.start()
        # What it leaves must not be taken for a failure of the next scenario.
        for ref in (PODS, RESOURCECLAIMS):
            for left in await place.list(ref):
                await place.delete(ref, left.metadata.name)
        return Shortage(name, violation=f"{type(error).__name__}: {error}")


def main() -> int:
    """Run the scenarios that the options name."""
    parser = argparse.ArgumentParser(prog="tools.kills.shortages", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], choices=list(SCENARIOS), help="a scenario (repeatable)")
    parser.add_argument("--write", action="store_true", help="write the table in docs/reliability.md")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    found = asyncio.run(run(folder, options.only or list(SCENARIOS)))
    shutil.rmtree(folder, ignore_errors=True)
    table = shortage_table(found, folder)
    print(table)
    if options.write:
        write_table("shortages", table)
    return 1 if any(one.violation for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
