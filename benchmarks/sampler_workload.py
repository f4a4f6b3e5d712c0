"""What `benchmarks.sampler` asks of an engine, part by part, and the rules that a reply must keep.

An engine is a module with `make_engine(shape, max_len, batch)`; what that returns has

    generate(prompts, max_new, stop_ids, seed, session=None)   new tokens of each, with the stop id
    num_params                                                 parameters of its model
    slot_steps                                                 decode steps times slots, so far

Weights are random and sampling is close to uniform, so each token ends its reply with probability
(number of stop ids) / vocabulary: lengths are geometric, cut at `max_new`.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

EOS = 2
FIRST_WORD, LAST_WORDS = 100, 200  # prompts use neither the first nor the last ids


@dataclasses.dataclass(frozen=True)
class ModelShape:
    """A small Qwen3: norms on queries and keys, a head of its own, nearly 8 M parameters."""

    num_layers: int = 6
    embed_dim: int = 256
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    ffn_dim: int = 1024
    vocab: int = 4096
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class Part:
    """One kind of load. A round plays it once.

    Attributes:
        slots: sequences that the engine may decode together.
        max_len: tokens of one sequence, prompt and replies.
        prompts: requests of one round.
        prompt: tokens of each, up to a quarter more or less.
        copies: neighbours that share one prompt.
        per_call: requests of one call of `generate`.
        max_new: most tokens of one reply.
        num_stop: stop ids; 1 is the end-of-sequence id alone, which random weights rarely sample.
        turns: calls per episode; each sends the whole history.
        observation: tokens between two turns.
    """

    name: str
    slots: int = 64
    max_len: int = 256
    prompts: int = 64
    prompt: int = 64
    copies: int = 1
    per_call: int = 256
    max_new: int = 128
    num_stop: int = 85
    turns: int = 1
    observation: int = 32

    def stop_ids(self, vocab: int) -> list[int]:
        return [EOS] if self.num_stop == 1 else list(range(vocab - self.num_stop, vocab))


PARTS = {
    part.name: part
    for part in (
        Part("fixed", num_stop=1),
        Part("varied"),
        Part("group", copies=8),
        Part("refill", prompts=256),
        Part("turns", max_len=560, turns=4, max_new=48),
        Part("batch1", slots=1, prompts=8, per_call=1),
    )
}


@dataclasses.dataclass(frozen=True)
class Reply:
    """Tokens of one request: `known` of the `prompt` need not be computed again, because an earlier
    turn or an earlier copy did; `sampled` were new."""

    known: int
    prompt: int
    sampled: int


def draw_prompts(part: Part, vocab: int, seed: int) -> list[list[int]]:
    """A round's own: an engine that remembers prompts gains nothing from the round before."""
    rng = np.random.default_rng([seed, part.prompts // part.copies])
    least, most = 3 * part.prompt // 4, 5 * part.prompt // 4
    drawn = [
        rng.integers(FIRST_WORD, vocab - LAST_WORDS, size=rng.integers(least, most + 1)).tolist()
        for _ in range(part.prompts // part.copies)
    ]
    return [prompt for prompt in drawn for _ in range(part.copies)]


def play(part: Part, vocab: int, seed: int, generate: Callable) -> list[list[Reply]]:
    """One round: the replies of every call.

    Raises:
        ReplyError: see `check_replies`.
    """
    prompts, stop = draw_prompts(part, vocab, seed), part.stop_ids(vocab)
    rng = np.random.default_rng(7)
    calls = []
    for start in range(0, part.prompts, part.per_call):
        histories = prompts[start : start + part.per_call]
        known = [0 if i % part.copies == 0 else len(h) - 1 for i, h in enumerate(histories)]
        session = list(range(len(histories))) if part.turns > 1 else None
        for turn in range(part.turns):
            call_seed = 1000 * seed + start + turn
            replies = generate(histories, part.max_new, stop, call_seed, session)
            check_replies(replies, len(histories), part.max_new, stop)
            both = list(zip(histories, replies, strict=True))
            calls.append([Reply(k, len(h), len(r)) for k, (h, r) in zip(known, both, strict=True)])
            known = [len(h) + len(r) - 1 for h, r in both]
            more = rng.integers(FIRST_WORD, vocab - LAST_WORDS, (len(both), part.observation))
            histories = [h + r + new for (h, r), new in zip(both, more.tolist(), strict=True)]
    return calls


class ReplyError(Exception):
    """An engine's reply breaks the rules of sampling."""


def check_replies(
    replies: Sequence[Sequence[int]], count: int, max_new: int, stop_ids: Sequence[int]
) -> None:
    """Each reply ends at its first stop id, or else after `max_new` tokens.

    Raises:
        ReplyError: one does not, or their number is not `count`.
    """
    if len(replies) != count:
        raise ReplyError(f"{len(replies)} replies to {count} prompts")
    stop = set(stop_ids)
    for index, reply in enumerate(replies):
        ended = bool(reply) and reply[-1] in stop
        if not 0 < len(reply) <= max_new or (len(reply) < max_new and not ended):
            raise ReplyError(f"reply {index} has {len(reply)} tokens and no stop id at its end")
        if stop & set(reply[:-1]):
            raise ReplyError(f"reply {index} goes on after a stop id")
