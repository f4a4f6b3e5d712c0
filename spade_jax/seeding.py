"""Seeds derived by name: every random choice of a run is a function of (run seed, what for).

Nothing random is carried from step to step: a resumed run draws what the uninterrupted one drew.
"""

import zlib

import numpy as np


def _words(parts) -> list[int]:
    return [zlib.crc32(p.encode()) if isinstance(p, str) else int(p) & 0xFFFFFFFF for p in parts]


def derive(*parts: int | str) -> int:
    """A seed in [0, 2^31) from a run seed and labels: `derive(seed, "play", step, 3)`."""
    return int(np.random.SeedSequence(_words(parts)).generate_state(1)[0]) >> 1


def generator(*parts: int | str) -> np.random.Generator:
    """A numpy generator for the same labels."""
    return np.random.default_rng(np.random.SeedSequence(_words(parts)))
