"""Warm-start data: the seed library's designs and expert play as conversations and token rows."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from spade_jax.designer import Negative, Record, Selection, designer_prompt
from spade_jax.grounding import cut_words
from spade_jax.prompts import Prompts
from spade_jax.rollout import Trajectory
from spade_jax.text import ChatRenderer, Message

GENERATE_WALL = 600.0  # seconds; the generator needs about 20

Conversation = list[Message]


class WarmStartError(RuntimeError):
    """The warm start's data could not be made or does not fit the model."""


def generate(
    folder: pathlib.Path, seed: int, designs: int, episodes: int, mixture: Mapping[str, float]
) -> None:
    """Makes `folder` with `designs.jsonl` and `episodes.jsonl`, whole or not at all.

    The generator runs the seed library's programs, and no environment ever runs in the trainer.
    """
    if folder.exists():
        return
    partial = folder.with_name(f"{folder.name}.partial")
    command = [
        sys.executable, "-m", "spade_jax.envs.library", f"--out={partial.resolve()}",
        f"--seed={seed}", f"--designs={designs}", f"--episodes={episodes}",
        *(f"--{name.replace('_', '-')}={value}" for name, value in mixture.items()),
    ]  # fmt: skip
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=GENERATE_WALL, check=False,
        start_new_session=True,  # Ctrl-C is for the trainer, which stops when these rows are done
    )  # fmt: skip
    if done.returncode:
        raise WarmStartError(f"the row generator failed:\n{done.stderr[-2000:]}")
    partial.rename(folder)


def read(path: pathlib.Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def conversations(
    folder: pathlib.Path, prompts: Prompts, max_words: int, snippet: int, seed: int
) -> tuple[list[Conversation], list[Conversation]]:
    """`(designer conversations, agent conversations)` of the folder's files.

    Documents are cut to `max_words` as they will be in self-play: a small model that has never seen
    a document end inside a sentence answers it with a player's reply.
    """
    rng = np.random.default_rng(seed)
    designs = list(read(folder / "designs.jsonl"))
    for design in designs:
        design["document"] = cut_words(design["document"], max_words)
    designer = [design_conversation(design, designs, prompts, snippet, rng) for design in designs]
    agent = [
        episode_conversation(episode, prompts) for episode in read(folder / "episodes.jsonl")
    ]
    return designer, agent


def design_conversation(
    design: dict, others: list[dict], prompts: Prompts, snippet: int, rng: np.random.Generator
) -> Conversation:
    """One designer row. Every second one that has a memory example also sees a negative one."""
    positives, negatives = [], []
    if design["memory"]:
        positives = [_record(design["memory"], design["skill"], rng.uniform(0.15, 0.85))]
        if rng.random() < 0.5:
            other = others[rng.integers(len(others))]
            easy = rng.random() < 0.5
            negatives = [Negative(_record(other, other["skill"], float(easy)), easy)]
    examples = Selection(tuple(positives), tuple(negatives))
    prompt = designer_prompt(prompts, design["skill"], design["document"], examples, snippet)
    reply = prompts.render("design", source=design["source"], hint=design["hint"])
    return [Message("user", prompt), Message("assistant", reply)]


def _record(design: dict, skill: str, win_rate: float) -> Record:
    return Record(source=design["source"], skill=skill, win_rate=win_rate, regret=0.0, step=0)


def episode_conversation(episode: dict, prompts: Prompts) -> Conversation:
    messages = []
    for index, (observation, action) in enumerate(episode["turns"]):
        hint = episode["hint"] if episode["with_hint"] and index == 0 else None
        text = prompts.render("observation", observation=observation, hint=hint)
        messages += [Message("user", text), Message("assistant", f"\\boxed{{{action}}}")]
    return messages


def lines(conversations: Iterable[Conversation]) -> Iterator[str]:
    """Single lines for the tokenizer's training, each with its newline where the text has one."""
    for conversation in conversations:
        for message in conversation:
            yield from message.content.splitlines(keepends=True)


def to_trajectory(conversation: Conversation, chat: ChatRenderer) -> Trajectory:
    """The row that sampling the assistant's words would have made; log-probs are zero."""
    row = Trajectory(version=0)
    waiting: list[Message] = []
    for message in conversation:
        if message.role != "assistant":
            waiting.append(message)
            continue
        row.append_context(chat.extend(waiting) if row.tokens else chat.open(waiting))
        reply = chat.reply(message.content)
        row.append_sampled(reply, [0.0] * len(reply), 0)
        waiting = []
    return row
