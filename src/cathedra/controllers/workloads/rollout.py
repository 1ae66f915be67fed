"""How many pods of the new version, and how many of the old ones: the arithmetic of rolling updates. Pure."""

from __future__ import annotations

__all__ = ["down_step", "limits", "resolve", "up_step"]


def resolve(value: int | str | None, total: int, *, round_up: bool, default: int | str) -> int:
    """An absolute number, or a percentage of ``total``."""
    value = default if value is None else value
    if isinstance(value, int):
        return value
    percent = int(value.rstrip("%") or 0) * total
    return -(-percent // 100) if round_up else percent // 100


def limits(replicas: int, max_surge: int | str | None, max_unavailable: int | str | None) -> tuple[int, int]:
    """Pods allowed above ``replicas``, and unavailable pods allowed below; never both zero."""
    surge = resolve(max_surge, replicas, round_up=True, default="25%")
    unavailable = resolve(max_unavailable, replicas, round_up=False, default="25%")
    if surge == 0 and unavailable == 0:
        # A rollout that may do neither could not move at all.
        unavailable = 1
    return surge, min(unavailable, replicas) if replicas else unavailable


def up_step(replicas: int, surge: int, new: int, total: int) -> int:
    """To how many pods the new version may grow, with ``total`` pods of all versions wanted now."""
    if new >= replicas:
        return replicas
    room = replicas + surge - total
    return new + min(max(room, 0), replicas - new)


def down_step(replicas: int, unavailable: int, total: int, new_unavailable: int) -> int:
    """How many pods of old versions may go so that enough stay available."""
    return max(0, total - (replicas - unavailable) - new_unavailable)
