"""What the curriculum carries from step to step."""

import msgspec

from spade_jax.curricula.archive import Archived
from spade_jax.curricula.controllers import Standing
from spade_jax.curricula.deck import Deck
from spade_jax.curricula.graded import Graded
from spade_jax.curricula.lifecycle import Tally


class CurriculumRecords(msgspec.Struct, omit_defaults=True):
    """Attributes:
    deck: the walk over the pool.
    tallies: plays of the pool's environments since they were last judged.
    dropped: environments that left the pool, with their mean return then.
    graded: the fixed environments of "adaptive".
    standings: what its controller knows.
    archive: retired environments, oldest first.
    """

    deck: Deck = msgspec.field(default_factory=Deck)
    tallies: dict[str, Tally] = msgspec.field(default_factory=dict)
    dropped: dict[str, float] = msgspec.field(default_factory=dict)
    graded: list[Graded] = msgspec.field(default_factory=list)
    standings: dict[str, Standing] = msgspec.field(default_factory=dict)
    archive: list[Archived] = msgspec.field(default_factory=list)
