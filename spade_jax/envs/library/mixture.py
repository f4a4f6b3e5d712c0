"""Settings of the warm-start mix, and the draws that depend on them alone."""

import dataclasses

import numpy as np

SMALLEST_KNOB, LARGEST_KNOB = 2, 60


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Shares are probabilities in [0, 1]; noise is the chance of a careless action at a turn.

    The difficulty is `easiest + Exp(spread)`, except for a share `hard_tail` that is uniform on
    `hard_range`, both ends included. The noise is small on purpose: a tiny agent learns careless
    actions as well as good ones, and easy environments would then stay "in band" for ever.
    """

    easiest: float = 3.0
    spread: float = 2.5
    hard_tail: float = 0.04
    hard_range: tuple[int, int] = (10, 50)
    generic_documents: float = 0.25
    no_document: float = 0.05
    vague_hints: float = 0.25
    memory: float = 0.5
    memory_spread: float = 0.35
    hinted_episodes: float = 0.5
    noise_with_hint: float = 0.02
    noise_without_hint: float = 0.04


def draw_knob(rng: np.random.Generator, settings: Mixture) -> int:
    """A difficulty of the warm-start mix, mostly easy."""
    if rng.random() < settings.hard_tail:
        low, high = settings.hard_range
        return int(rng.integers(low, high + 1))
    return min(LARGEST_KNOB, int(settings.easiest + rng.exponential(settings.spread)))


def near_knob(rng: np.random.Generator, knob: int, spread: float = 0.35) -> int:
    """A difficulty near another one: times e^N(0, spread), within what the families can render."""
    scaled = round(knob * float(np.exp(rng.normal(0.0, spread))))
    return max(SMALLEST_KNOB, min(LARGEST_KNOB, scaled))
