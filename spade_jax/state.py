"""RunState: everything a resume needs, as one object."""

import dataclasses
from typing import Any

import msgspec

from spade_jax.curricula import CurriculumRecords
from spade_jax.designer import Environment
from spade_jax.models import Params
from spade_jax.rl import LearnerState, SkillAverages


class Records(msgspec.Struct):
    """The part of the state that is not arrays; saved as JSON.

    Attributes:
        step: iterations done.
        designs: those of the present regeneration epoch and older ones not yet trained.
        pool: the environments of a curriculum that has a pool.
        memory: `Memory.to_json()`.
        documents: `DocumentSampler.state()`.
        baselines: moving average of the designer's reward per skill.
        averages: moving averages of the returns without the hint per skill.
        curriculum: what else the curriculum keeps.
    """

    step: int = 0
    designs: list[Environment] = msgspec.field(default_factory=list)
    pool: list[Environment] = msgspec.field(default_factory=list)
    memory: str = "[]"
    documents: dict[str, Any] = msgspec.field(default_factory=dict)
    baselines: dict[str, float] = msgspec.field(default_factory=dict)
    averages: dict[str, SkillAverages] = msgspec.field(default_factory=dict)
    curriculum: CurriculumRecords = msgspec.field(default_factory=CurriculumRecords)


@dataclasses.dataclass
class RunState:
    """`reference` is the frozen model of the KL term in the dtype that it computes in, or None when
    the recipe has no KL."""

    learner: LearnerState
    reference: Params | None
    records: Records
