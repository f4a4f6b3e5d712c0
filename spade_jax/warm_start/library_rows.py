"""Warm-start examples from the seed library: its designs, and experts' play of them."""

import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from sandbox_runner import StepResult
from spade_jax.designer import Negative, Record, Selection, designer_prompt
from spade_jax.envs import answer, opening
from spade_jax.grounding import cut_words
from spade_jax.prompts import Prompts
from spade_jax.text import Message
from spade_jax.warm_start.example import Example, WarmStartError

GENERATE_WALL = 600.0  # seconds; the generator needs about 20


def generate(
    folder: pathlib.Path,
    seed: int,
    designs: int,
    episodes: int,
    mixture: Mapping[str, float],
    domain: str = "games",
) -> None:
    """Writes `designs.jsonl` and `episodes.jsonl` into `folder`.

    The generator runs the seed library's programs, and no environment ever runs in the trainer.

    Raises:
        WarmStartError: it failed.
    """
    command = [
        sys.executable, "-m", "spade_jax.envs.library", f"--out={folder.resolve()}",
        f"--seed={seed}", f"--designs={designs}", f"--episodes={episodes}",
        f"--domain={domain}",
        *(f"--{name.replace('_', '-')}={value}" for name, value in mixture.items()),
    ]  # fmt: skip
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=GENERATE_WALL, check=False,
        start_new_session=True,  # Ctrl-C is for the trainer, which stops when these rows are done
    )  # fmt: skip
    if done.returncode:
        raise WarmStartError(f"the row generator failed:\n{done.stderr[-2000:]}")


def read(path: pathlib.Path) -> Iterator[dict]:
    """The rows of one file; none when it is missing: a run need not use the library."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def sources(folder: pathlib.Path) -> Iterator[str]:
    """Every source that the designer's rows show, as reply or as memory."""
    for design in read(folder / "designs.jsonl"):
        yield from (shown["source"] for shown in (design, design["memory"]) if shown)


def examples(
    folder: pathlib.Path,
    prompts: Prompts,
    max_words: int,
    snippet: int,
    seed: int,
    hint_style: str = "append",
    domain: str = "games",
    max_turns: int = 25,
    inline_hint: bool = True,
) -> list[Example]:
    """The designer's examples, then the agent's. `max_turns` is what the designer is told, and
    `inline_hint` says whether it writes the hint.

    Documents are cut to `max_words` as they will be in self-play: a small model that has never seen
    a document end inside a sentence answers it with a player's reply.
    """
    rng = np.random.default_rng(seed)
    designs = list(read(folder / "designs.jsonl"))
    for design in designs:
        design["document"] = cut_words(design["document"], max_words)
    ask = functools.partial(
        designer_prompt, prompts, snippet=snippet, domain=domain, max_turns=max_turns,
        inline_hint=inline_hint,
    )  # fmt: skip
    return [
        *(design_example(design, designs, prompts, ask, rng, inline_hint) for design in designs),
        *(
            episode_example(episode, prompts, hint_style)
            for episode in read(folder / "episodes.jsonl")
        ),
    ]


def design_example(
    design: dict,
    others: list[dict],
    prompts: Prompts,
    ask: Callable[..., str],
    rng: np.random.Generator,
    inline_hint: bool = True,
) -> Example:
    """One designer row. Every second one that has a memory example also sees a negative one.

    `ask` makes the prompt of a skill, a document and a selection.
    """
    positives, negatives = [], []
    if design["memory"]:
        positives = [_record(design["memory"], design["skill"], rng.uniform(0.15, 0.85))]
        if rng.random() < 0.5:
            other = others[rng.integers(len(others))]
            easy = rng.random() < 0.5
            negatives = [Negative(_record(other, other["skill"], float(easy)), easy)]
    shown = Selection(tuple(positives), tuple(negatives))
    prompt = ask(design["skill"], design["document"], shown)
    hint = design["hint"] if inline_hint else None
    reply = prompts.render("design", source=design["source"], hint=hint)
    return Example((Message("user", prompt), Message("assistant", reply)), "designer")


def _record(design: dict, skill: str, win_rate: float) -> Record:
    return Record(source=design["source"], skill=skill, win_rate=win_rate, regret=0.0, step=0)


def episode_example(episode: dict, prompts: Prompts, hint_style: str = "append") -> Example:
    tools = tuple(episode.get("tools", ()))
    all_results = episode.get("results") or [None] * len(episode["turns"])
    messages: list[Message] = []
    for (observation, action), results in zip(episode["turns"], all_results, strict=True):
        if not messages:
            hint = episode["hint"] if episode["with_hint"] else None
            messages += opening(prompts, observation, hint, hint_style, bool(tools))
        else:
            messages += answer(StepResult(observation, 0.0, False, False, results)).messages
        messages.append(Message("assistant", action if tools else f"\\boxed{{{action}}}"))
    return Example(tuple(messages), "agent", tools)
