"""Held-out scores of a state."""

from spade_jax import seeding
from spade_jax.eval import evaluate, held_out
from spade_jax.progress import Progress
from spade_jax.rollout import PlaySettings
from spade_jax.rooms import Rooms
from spade_jax.state import RunState


def score(
    rooms: Rooms, state: RunState, progress: Progress, split: str = "dev"
) -> dict[str, float]:
    """Held-out scores named `eval/SPLIT/MODE/GROUP`, at temperature 1 ("sampled") and "greedy".

    Training only ever scores itself on "dev".
    """
    config = rooms.config
    rooms.sample_with(state.learner, "agent")
    environments, scores = held_out(split), {}
    modes = (("sampled", 1.0, config.eval.episodes), ("greedy", 0.0, config.eval.greedy))
    for mode, temperature, episodes in modes:
        if not episodes:
            continue
        settings = PlaySettings(temperature, config.eval.max_turns, config.agent.max_new_tokens)
        with progress.phase("eval"):
            found = evaluate(
                rooms.player, environments, episodes, settings,
                seeding.derive(config.seed, "eval", split, mode),
            )  # fmt: skip
        prefix = f"eval/{split}/{mode}"
        scores |= {f"{prefix}/{group}": value for group, value in found.items()}
    return scores
