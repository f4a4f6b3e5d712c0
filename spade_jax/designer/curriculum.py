"""Which designs are asked for: active skills, a fresh document each, examples from memory."""

from collections.abc import Callable, Sequence

from spade_jax import seeding
from spade_jax.designer.design import DesignRequest
from spade_jax.designer.memory import Memory
from spade_jax.grounding import DocumentSampler


def active_skills(skills: Sequence[str], per_regen: int, regeneration: int) -> list[str]:
    """The window of `per_regen` skills of this regeneration; windows go round-robin."""
    start = regeneration * per_regen
    return [skills[(start + offset) % len(skills)] for offset in range(per_regen)]


def requests(
    slots: Sequence[str],
    skills: Sequence[str],
    documents: DocumentSampler | None,
    memory: Memory | None,
    use_memory: float,
    seed_of: Callable[[str], int],
    target: tuple[float, float] | None = None,
) -> list[DesignRequest]:
    """One request per slot; skills take turns.

    Args:
        slots: names of the designs to be, unique in the run.
        memory: None when ablated; each design sees it with probability `use_memory`.
        seed_of: a seed from a label; makes every draw a function of the run's seed.
        target: win rates that the designs are told to aim at; None: they are told nothing.
    """
    wanted = []
    for index, name in enumerate(slots):
        skill = skills[index % len(skills)]
        rng = seeding.generator(seed_of(f"{name} examples"))
        examples = None
        if memory is not None and rng.random() < use_memory:
            examples = memory.select(skill, rng)
        difficulty = memory.difficulty(skill, target) if memory and target else None
        document = documents.next() if documents is not None else None
        sample_seed = seed_of(f"{name} design")
        wanted.append(DesignRequest(name, skill, document, examples, sample_seed, difficulty))
    return wanted
