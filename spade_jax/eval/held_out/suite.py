"""Two suites of environments that training never shows, at four difficulties.

"dev" may guide choices. "test" is for final reports only: a setting that was chosen, a run that was
stopped or a recipe that was kept because of a test score makes that score worthless.
"""

import dataclasses

from spade_jax.envs.library import GAMES
from spade_jax.envs.library.documents import RESERVED, RESERVED_COLOURS
from spade_jax.envs.library.family import Family, Mechanic
from spade_jax.envs.library.shop import RESERVED_FEES
from spade_jax.eval.held_out import families

KNOBS = (6, 13, 22, 36)
"""The difficulty of levels 1 to 4; 3 and 4 are the hard half."""

_SEEN: dict[str, dict[str, tuple[Mechanic, ...]]] = {
    "dev": {
        "rule": (Mechanic("add", 5), Mechanic("take", 5)),
        "sequence": (Mechanic("once", 2), Mechanic("twice", 2)),
        "lift": (Mechanic("up/down", 2), Mechanic("down/up", 2)),
    },
    "test": {
        "rule": (Mechanic("add", 7), Mechanic("take", 7)),
        "sequence": (Mechanic("once", 3), Mechanic("twice", 3)),
        "lift": (Mechanic("up/down", 4), Mechanic("down/up", 4)),
    },
}
_UNSEEN: dict[str, tuple[tuple[Family, tuple[Mechanic, Mechanic]], ...]] = {
    "dev": (
        (families.RingFamily(), (Mechanic("add", 8), Mechanic("take", 8))),
        (families.TankFamily(), (Mechanic("falls", 3), Mechanic("rises", 3))),
        (families.AuctionFamily(), (Mechanic("middle", 3), Mechanic("largest", 3))),
    ),
    "test": (
        (families.DoubleFamily(), (Mechanic("add", 3), Mechanic("take", 3))),
        (families.SpringFamily(), (Mechanic("up", 2), Mechanic("down", 2))),
        (families.MidwayFamily(), (Mechanic("add", 2), Mechanic("take", 2))),
    ),
}


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """One environment. `level` is 1 to 4; `mode` names the hidden mechanic, two per family and
    level; `seen` says whether training shows this family, with other constants or colours where it
    has them, other nouns, and difficulties above level 1 in few designs."""

    name: str
    family: str
    level: int
    knob: int
    source: str
    hint: str
    mode: str
    seen: bool


def entries(split: str) -> list[tuple[Family, int, Mechanic, bool]]:
    """(family, level, mechanic, seen) of a split, two mechanics for every family and level.

    Raises ValueError for a split other than "dev" and "test".
    """
    if split not in _UNSEEN:
        raise ValueError(f"unknown held-out split {split!r}: expected 'dev' or 'test'")
    one, other = RESERVED_COLOURS[split]
    found: list[tuple[Family, int, Mechanic, bool]] = []
    for level in range(1, len(KNOBS) + 1):
        fee = RESERVED_FEES[split][level - 1]
        seen = _SEEN[split] | {
            "search": (Mechanic(f"{one}/{other}"), Mechanic(f"{other}/{one}")),
            "levers": (Mechanic(f"{one}/{other}", 2), Mechanic(f"{other}/{one}", 2)),
            "shop": (Mechanic("first", fee), Mechanic("third", fee)),
        }
        found += [(GAMES.families[name], level, m, True) for name in seen for m in seen[name]]
        found += [(family, level, m, False) for family, pair in _UNSEEN[split] for m in pair]
    return found


def held_out(split: str) -> list[HeldOut]:
    """The environments of a split: nine families, four levels, two hidden modes each."""
    listed = entries(split)
    nouns = RESERVED[split]
    suite = []
    for index, (family, level, mechanic, seen) in enumerate(listed):
        knob = KNOBS[level - 1]
        mode = f"{mechanic.rule} {mechanic.constant}"
        suite.append(
            HeldOut(
                name=f"{split}/{family.name}/{level}/{mode.replace(' ', '-').replace('/', '-')}",
                family=family.name,
                level=level,
                knob=knob,
                source=family.source(mechanic, knob, nouns[(index // 2 + level) % len(nouns)]),
                hint=family.hint(mechanic, knob),
                mode=mode,
                seen=seen,
            )
        )
    return suite
