"""Which environments are played again, and when: pools, levels of difficulty, an archive."""

from spade_jax.curricula.archive import Archived, draw_spread, keep_spread
from spade_jax.curricula.controllers import (
    CONTROLLERS,
    Controller,
    LearningPotential,
    Pick,
    SlidingWindow,
    Standing,
)
from spade_jax.curricula.deck import Deck
from spade_jax.curricula.folder import FolderError, Rejections, read_file, read_folder
from spade_jax.curricula.graded import Graded, GradedError, graded
from spade_jax.curricula.lifecycle import Tally, judged
from spade_jax.curricula.records import CurriculumRecords
from spade_jax.curricula.seed_library import seed_environments

__all__ = [
    "CONTROLLERS",
    "Archived",
    "Controller",
    "CurriculumRecords",
    "Deck",
    "FolderError",
    "Graded",
    "GradedError",
    "LearningPotential",
    "Pick",
    "Rejections",
    "SlidingWindow",
    "Standing",
    "Tally",
    "draw_spread",
    "graded",
    "judged",
    "keep_spread",
    "read_file",
    "read_folder",
    "seed_environments",
]
