"""Texts that the library writes over and over, for a tokenizer to keep whole.

Numbers are tokens of their own, so a learned merge never crosses one: `{(\\d{1,2})\\}` alone costs
nine pieces. Handed to the tokenizer as atomic texts, each of these lines costs one, and no merge is
spent on the way to it. A noun or colour of one piece is easier to copy from a document.
"""

import re

from spade_jax.envs.library.documents import COLOURS, TOPICS
from spade_jax.envs.library.registry import GAMES, Domain

_VALUE = re.compile(r'(    [A-Z]+ = "?)\w+"?$')


def idioms(domain: Domain = GAMES) -> tuple[str, ...]:
    """Source lines, the beginnings of lines that hold a value, nouns, colours and what replies of
    the domain have in common; sorted.

    A source line is here whole, newline included, if no knob, constant, noun or colour changes it.
    """
    found = {
        "    N = ",
        '    NAME = "',
        *COLOURS,
        *(noun for group in TOPICS.values() for noun in group),
    }
    for family in domain.families.values():
        found.update(family.phrases)
        for mechanic in family.mechanics:
            first = family.source(mechanic, 7, "crane").splitlines()
            second = family.source(mechanic, 23, "dome").splitlines()
            found.update(map(_fixed_part, set(first).intersection(second)))
    return tuple(sorted(found))


def _fixed_part(line: str) -> str:
    value = _VALUE.match(line)
    return value.group(1) if value else f"{line}\n"
