"""Takes memory in small pieces, by two allocators, keeps all of it and swallows every refusal.

More than 1 GiB would starve the neighbours; with nothing left, the runner itself cannot answer.
"""
import mmap

HELD = []

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        taken = 0
        for size, take in ((1 << 20, lambda n: mmap.mmap(-1, n)), (4096, bytearray), (16, bytes)):
            try:
                while taken < 1 << 30:
                    piece = take(size)
                    if size > 16:
                        piece[0] = 1
                    HELD.append(piece)
                    taken += size
            except (MemoryError, OSError, ValueError):
                continue
        full = taken >= 1 << 30
        return "ESCAPED: 1 GiB" if full else "refused: MemoryError None", 0.0, False, False, {}
