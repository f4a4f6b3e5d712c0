"""Short grounding documents: a topic, its nouns, perhaps colours, perhaps a cue for one family.

The sentences are fixed and few, so that a vocabulary of about a thousand pieces covers them. No
document states a number: a document may ground what an environment is about, never how hard it is.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from spade_jax.envs.library import mixture

TOPICS: dict[str, tuple[str, ...]] = {
    "harbour": ("crane", "ferry", "pilot", "winch", "buoy", "rudder"),
    "market": ("stall", "basket", "scale", "barrel", "cart"),
    "workshop": ("lathe", "drill", "hammer", "bench", "press"),
    "farm": ("tractor", "barn", "plough", "well", "mill"),
    "railway": ("train", "signal", "wagon", "tunnel", "siding"),
    "castle": ("tower", "gate", "bridge", "banner", "vault"),
    "garden": ("pond", "hedge", "fountain", "rose", "shed"),
    "school": ("desk", "clock", "bell", "map", "globe"),
    "kitchen": ("stove", "kettle", "spoon", "jar", "plate"),
    "mine": ("shaft", "pump", "hoist", "drum", "cage"),
    "theatre": ("curtain", "stage", "piano", "harp", "mask"),
    "observatory": ("dome", "lens", "mirror", "prism", "comet"),
}
COLOURS = ("red", "blue", "green", "white", "black", "gold")
RESERVED = {"dev": ("buoy", "prism", "harp"), "test": ("rudder", "mask", "comet")}
"""Nouns that documents may mention but no training environment is named after."""
RESERVED_COLOURS = {"dev": ("red", "white"), "test": ("blue", "green")}
"""Pairs of colours that no training environment uses together, in either order."""

BLURBS: dict[str, tuple[str, ...]] = {
    "harbour": ("Boats come in with the tide.", "Fish and rope lie on the stones."),
    "market": ("Fruit and cloth are sold from morning on.", "Buyers talk about the price."),
    "workshop": ("Wood and iron are shaped with care.", "The floor is covered with dust."),
    "farm": ("Grain grows on the wide fields.", "The animals are fed before the sun rises."),
    "railway": ("Travellers wait for the next line.", "Steel runs straight through the hills."),
    "castle": ("Guards walked on the thick walls.", "The king held his feasts in the hall."),
    "garden": ("Paths of stone lead under the trees.", "Birds drink there in the evening."),
    "school": ("Pupils learn to read and to count.", "The rooms are quiet in summer."),
    "kitchen": ("Soup is cooked on a slow fire.", "The cook tastes before he serves."),
    "mine": ("Men dig for ore below the hill.", "Water drips from the roof of stone."),
    "theatre": ("The actors learn their lines by heart.", "The hall is full on most nights."),
    "observatory": ("At night the sky is watched from the hill.", "Stars are drawn on paper."),
}
SCENES = (
    "The {topic} keeps a {noun} beside the {other}.",
    "A {noun} stands in the {topic} and is used every day.",
    "People of the {topic} know the {noun} well.",
    "Near the {other} of the {topic} works an old {noun}.",
    "Visitors come to the {topic} to see the {noun}.",
)
DETAILS = (
    "The {other} was repaired last spring.",
    "Nobody remembers who built the {other}.",
    "In winter the {other} is covered with snow.",
    "Children like the {other} more.",
    "A small sign explains its history.",
    "The keeper writes everything in a book.",
)
PAINT = (
    "Its lights are {first} and {second}.",
    "It has a {first} handle and a {second} handle.",
    "The marks on it are {first} and {second}.",
)
GENERIC = (
    "Rain fell over the valley for most of the week.",
    "Bread rises because yeast makes gas in the dough.",
    "The old road follows the river to the sea.",
    "Bees visit flowers and carry pollen home.",
    "A good story needs a beginning and an end.",
    "The moon pulls the water and makes the tides.",
    "Wolves hunt together and share the food.",
    "Glass is made from sand in a hot fire.",
    "The choir sings in the square on holidays.",
    "Salt was once as dear as silver.",
    "Birds fly south when the days grow short.",
    "The painter mixes oil with ground stone.",
    "A library lends books to everyone in the town.",
    "Snow melts first on the sunny side of the hill.",
    "The team lost the game but played with courage.",
    "Paper came to the west along the trade roads.",
    "Deep in the forest the ground stays dark and wet.",
    "The doctor asked her to walk more and to rest.",
)


def _pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]


def is_reserved(first: str, second: str) -> bool:
    """Whether two colours are a pair of RESERVED_COLOURS."""
    return any({first, second} == set(pair) for pair in RESERVED_COLOURS.values())


def _two_colours(rng: np.random.Generator) -> list[str]:
    while True:
        colours = [str(colour) for colour in rng.choice(COLOURS, size=2, replace=False)]
        if not is_reserved(*colours):
            return colours


def _training_nouns(topic: str) -> list[str]:
    reserved = RESERVED["dev"] + RESERVED["test"]
    return [noun for noun in TOPICS[topic] if noun not in reserved]


def generic(rng: np.random.Generator, sentences: int = 2) -> str:
    """A document about nothing that a family uses."""
    return " ".join(str(s) for s in rng.choice(GENERIC, size=sentences, replace=False))


def about(
    rng: np.random.Generator,
    topic: str,
    noun: str,
    colours: Sequence[str] = (),
    cue: str = "",
    details: int = 1,
) -> str:
    """A document of `topic` whose first-named thing is `noun`, with colours and a cue if given."""
    other = _pick(rng, [thing for thing in TOPICS[topic] if thing != noun])
    pool = DETAILS + BLURBS[topic]
    parts = [pool[i] for i in rng.choice(len(pool), size=details, replace=False)]
    if colours:
        parts.append(_pick(rng, PAINT))
    if cue:
        parts.append(cue)
    rng.shuffle(parts)
    first, second = sorted(colours) if colours else ("", "")
    text = " ".join([_pick(rng, SCENES), *parts])
    return text.format(topic=topic, noun=noun, other=other, first=first, second=second)


def grounded(
    rng: np.random.Generator,
    cues: Sequence[str],
    colours: Sequence[str],
    settings: mixture.Mixture,
) -> tuple[str, str]:
    """(noun, document) of one training design; the document is generic or empty at set rates."""
    topic = _pick(rng, tuple(TOPICS))
    noun = _pick(rng, _training_nouns(topic))
    kind = rng.random()
    if kind < settings.no_document:
        return noun, ""
    if kind < settings.no_document + settings.generic_documents:
        return noun, generic(rng)
    return noun, about(rng, topic, noun, colours, _pick(rng, cues), int(rng.integers(4)))


def bundled(cues: Sequence[str], count: int = 260, seed: int = 0) -> Iterator[dict[str, str]]:
    """The records of the bundled corpus (keys id, text, topic): three in four about a topic."""
    rng = np.random.default_rng(seed)
    topics = tuple(TOPICS)
    for index in range(count):
        topic = topics[index % len(topics)] if index % 4 else "generic"
        if topic == "generic":
            text = generic(rng, int(rng.integers(4, 6)))
        else:
            noun = _pick(rng, _training_nouns(topic))
            colours = _two_colours(rng)
            cue = _pick(rng, cues) if rng.random() < 0.7 else ""
            text = about(rng, topic, noun, colours if rng.random() < 0.7 else (), cue, 3)
        yield {"id": f"bundled-{index:03d}", "text": text, "topic": topic}
