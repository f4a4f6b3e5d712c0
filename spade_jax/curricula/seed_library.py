"""The seed library as fixed environments: the default of the adaptive baselines."""

from spade_jax import seeding
from spade_jax.curricula.graded import Graded
from spade_jax.envs.library import DOMAINS, Mixture, documents
from spade_jax.envs.library.mixture import LARGEST_KNOB, SMALLEST_KNOB

PER_FAMILY = 2  # of eight families of games: the 16 environments of the published baselines


def seed_environments(seed: int, domain: str) -> list[Graded]:
    """Two of every family of a domain, with different hidden rules. Level k has `N` = 2 + k, up
    to 60."""
    found = []
    for name, family in DOMAINS[domain].families.items():
        rng = seeding.generator(seed, "seed environments", name)
        drawn = rng.permutation(len(family.mechanics))[:PER_FAMILY]
        for number, index in enumerate(drawn):
            mechanic = family.mechanics[index]
            cues, colours = family.cues, family.colours(mechanic)
            noun, _ = documents.grounded(rng, cues, colours, Mixture())
            found.append(
                Graded(
                    f"{name}-{number}",
                    family.source(mechanic, SMALLEST_KNOB, noun),
                    "contract",
                    limit=LARGEST_KNOB - SMALLEST_KNOB + 1,
                    skill=family.skill,
                )
            )
    return found
