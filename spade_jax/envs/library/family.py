"""What a family of environments is: a template, its hidden mechanics, hints and an ideal player."""

import dataclasses
import functools
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import jinja2
import numpy as np

from spade_jax.envs.library import documents, mixture

TEMPLATES = pathlib.Path(__file__).parent / "templates"
NUMBER_FORMAT = r"Reply \boxed{number}."
MOVE_FORMAT = r"Reply \boxed{word number}."
VAGUE_HINTS = (
    "The rule never changes. Learn it from the first reply.",
    "Watch how each reply differs from your answer.",
    "Try once, then correct yourself.",
)

_KNOB = re.compile(r"^([^\S\n]*N = )(\d{1,4})(?=[^\S\n]*$)", re.MULTILINE)

Turn = tuple[str, str]  # (observation, the action taken on it)


@dataclasses.dataclass(frozen=True)
class Mechanic:
    """The hidden constant of a program. `rule` names the variant, `constant` its amount."""

    rule: str
    constant: int = 0


@dataclasses.dataclass(frozen=True)
class SeedEnvironment:
    """One design as the Designer would write it. `vague`: the hint does not state the mechanic."""

    family: str
    skill: str
    knob: int
    document: str
    source: str
    hint: str
    mechanic: Mechanic
    vague: bool = False


def knob_of(source: str) -> int | None:
    """The number in the class attribute `N = 12`; None when a source has no such line."""
    found = _KNOB.search(source)
    return int(found[2]) if found else None


def with_knob(source: str, knob: int) -> str:
    """The source with another number where `knob_of` finds it."""
    return _KNOB.sub(rf"\g<1>{knob}", source, count=1)


def numbers(text: str) -> list[int]:
    """All non-negative integers of a text, in order."""
    return [int(digits) for digits in re.findall(r"\d+", text)]


@functools.cache
def _templates(folders: tuple[pathlib.Path, ...]) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


class Family:
    """Base of all families. A subclass sets the class attributes and the methods that raise here.

    `mechanics` are the ones training may show. `cues` are sentences that make a document call for
    this family. `phrases` are what its players write over and over. A mechanic is "effective" once
    its constant is what an agent can observe (some sources add N to the constant).
    """

    domain = "games"
    name: str
    skill: str
    turns: int
    mechanics: tuple[Mechanic, ...]
    cues: tuple[str, ...]
    reply = NUMBER_FORMAT
    phrases: tuple[str, ...] = ()
    folders: tuple[pathlib.Path, ...] = (TEMPLATES,)

    @property
    def template(self) -> str:
        return f"{self.name}.py.j2"

    def fields(self, mechanic: Mechanic) -> dict[str, object]:
        """Template fields beyond title, knob, noun and turns."""
        return {"rule": mechanic.rule, "constant": mechanic.constant}

    def colours(self, mechanic: Mechanic) -> tuple[str, ...]:
        """Colours that the source names, so that the document can name them too."""
        return ()

    def suits(self, mechanic: Mechanic, knob: int) -> bool:
        """Whether a mechanic matters at a difficulty; unsuited ones are not drawn for it."""
        return True

    def advice(self, mechanic: Mechanic, knob: int) -> str:
        """The mechanic in a sentence or two, without the reply format."""
        raise NotImplementedError

    def effective(self, mechanic: Mechanic, knob: int) -> Mechanic:
        return mechanic

    def beliefs(self, turns: Sequence[Turn], observation: str) -> Iterable[Mechanic]:
        """Effective mechanics that could have produced what the agent saw so far."""
        raise NotImplementedError

    def ideal(self, turns: Sequence[Turn], observation: str, mechanic: Mechanic) -> str:
        """The best action for an agent that knows the effective mechanic."""
        raise NotImplementedError

    def careless(self, turns: Sequence[Turn], observation: str, rng: np.random.Generator) -> str:
        """A random but well-formed action, for expert noise."""
        top = max(numbers(observation), default=9)
        return str(min(99, int(rng.integers(0, top + 6))))

    def infer(self, turns: Sequence[Turn], observation: str, rng: np.random.Generator) -> str:
        """The action that is ideal under most of the mechanics still possible (ties: at random)."""
        votes = Counter(
            self.ideal(turns, observation, belief) for belief in self.beliefs(turns, observation)
        )
        if not votes:
            return self.careless(turns, observation, rng)
        most = max(votes.values())
        best = [action for action, count in votes.items() if count == most]
        return best[int(rng.integers(len(best)))]

    def spoken(self, action: str) -> str:
        """The reply that takes an action."""
        return rf"\boxed{{{action}}}"

    def source(self, mechanic: Mechanic, knob: int, noun: str) -> str:
        template = _templates(self.folders).get_template(self.template)
        return template.render(
            title=self.name.capitalize(),
            knob=knob,
            noun=noun,
            turns=self.turns,
            **self.fields(mechanic),
        ).strip()

    def hint(self, mechanic: Mechanic, knob: int) -> str:
        return f"{self.advice(mechanic, knob)} {self.reply}"

    def sample(
        self,
        rng: np.random.Generator,
        knob: int | None = None,
        settings: mixture.Mixture | None = None,
    ) -> SeedEnvironment:
        """One environment of the warm-start mix; `knob` None draws the difficulty from it too."""
        settings = settings or mixture.Mixture()
        knob = mixture.draw_knob(rng, settings) if knob is None else knob
        options = [option for option in self.mechanics if self.suits(option, knob)]
        options = options or list(self.mechanics)
        mechanic = options[int(rng.integers(len(options)))]
        noun, document = documents.grounded(rng, self.cues, self.colours(mechanic), settings)
        vague = bool(rng.random() < settings.vague_hints)
        hint = self.hint(mechanic, knob)
        if vague:
            hint = f"{VAGUE_HINTS[int(rng.integers(len(VAGUE_HINTS)))]} {self.reply}"
        return SeedEnvironment(
            family=self.name,
            skill=self.skill,
            knob=knob,
            document=document,
            source=self.source(mechanic, knob, noun),
            hint=hint,
            mechanic=mechanic,
            vague=vague,
        )
