"""The phases of one training step: design, play, reward, update."""

from spade_jax.cycle.advising import advice_metrics, judge_new, measure, speaking_phases
from spade_jax.cycle.crediting import agent_rows, scored_plays
from spade_jax.cycle.designing import PoolError, make_designs, open_documents
from spade_jax.cycle.playing import guard, play_arms
from spade_jax.cycle.replaying import draw_retired, retire
from spade_jax.cycle.rewarding import due_designs, note_novelty, pay, raw_reward
from spade_jax.cycle.sources import SOURCES, Source, open_source, source_name
from spade_jax.cycle.updating import role_gradients, update

__all__ = [
    "SOURCES",
    "PoolError",
    "Source",
    "advice_metrics",
    "agent_rows",
    "draw_retired",
    "due_designs",
    "guard",
    "judge_new",
    "make_designs",
    "measure",
    "note_novelty",
    "open_documents",
    "open_source",
    "pay",
    "play_arms",
    "raw_reward",
    "retire",
    "role_gradients",
    "scored_plays",
    "source_name",
    "speaking_phases",
    "update",
]
