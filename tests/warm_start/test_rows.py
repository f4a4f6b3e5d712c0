"""Warm-start rows: rendered as self-play renders, trained only where the assistant speaks."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from spade_jax.envs import HINT_STYLES, opening
from spade_jax.envs.library import Mixture
from spade_jax.prompts import Prompts
from spade_jax.rl.packing import empty
from spade_jax.text import NUMBERS, TinyChat, parse_design, train_sentencepiece
from spade_jax.warm_start import WarmStartError, library_rows
from spade_jax.warm_start.example import lines, to_rows
from spade_jax.warm_start.fresh import number_embeddings
from spade_jax.warm_start.stage import _weights

MAX_WORDS = 24


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "rows"
    library_rows.generate(folder, seed=3, designs=60, episodes=200, mixture={})
    return folder


@pytest.fixture(scope="module")
def examples(data):
    return library_rows.examples(data, Prompts("compact"), MAX_WORDS, 1600, seed=1)


@pytest.fixture(scope="module")
def talks(examples):
    """(messages of the designer's examples, messages of the agent's)."""
    by_role = {"designer": [], "agent": []}
    for example in examples:
        by_role[example.role].append(example.messages)
    return by_role["designer"], by_role["agent"]


@pytest.fixture(scope="module")
def chat(data, examples):
    return TinyChat(train_sentencepiece(lines(examples), data / "t.model", 400, NUMBERS))


def test_generation_is_a_function_of_the_seed(data, tmp_path):
    library_rows.generate(tmp_path / "rows", seed=3, designs=60, episodes=200, mixture={})
    for name in ("designs.jsonl", "episodes.jsonl"):
        assert (tmp_path / "rows" / name).read_bytes() == (data / name).read_bytes()


def test_a_generator_that_fails_says_why(tmp_path):
    with pytest.raises(WarmStartError, match="argument --memory: invalid"):
        mixture = {"memory": "often"}
        library_rows.generate(tmp_path / "rows", 0, designs=1, episodes=1, mixture=mixture)
    assert not (tmp_path / "rows").exists()


def test_the_mixture_of_the_config_is_the_generator_s_and_reaches_it(tmp_path):
    section = base.get_config().warm_start
    expected = dataclasses.asdict(Mixture())
    del expected["hard_range"]
    assert dict(section.mixture) == expected
    mixture = {**section.mixture, "memory": 1.0, "no_document": 1.0, "generic_documents": 0.0}
    library_rows.generate(tmp_path / "rows", 0, designs=20, episodes=5, mixture=mixture)
    designs = list(library_rows.read(tmp_path / "rows" / "designs.jsonl"))
    assert all(design["memory"] and not design["document"] for design in designs)


def test_documents_are_cut_as_in_self_play(talks):
    prompts = [prompt.content for prompt, _ in talks[0] if "Document: " in prompt.content]
    documents = [text.split("Document: ")[1].split("\n")[0] for text in prompts]
    lengths = [len(document.split()) for document in documents]
    assert max(lengths) == MAX_WORDS
    assert any(not document.endswith(".") for document in documents)


def test_designer_rows_parse_back_to_their_source_and_hint(data, talks):
    designer, _ = talks
    designs = library_rows.read(data / "designs.jsonl")
    for design, (prompt, reply) in zip(designs, designer, strict=True):
        parsed = parse_design(reply.content)
        assert parsed.source.strip() == design["source"].strip()
        assert parsed.hint == design["hint"]
        assert prompt.content.startswith(f"Skill: {design['skill']}")
        assert ("Document:" in prompt.content) == bool(design["document"])
        assert ("Example, win rate" in prompt.content) == bool(design["memory"])


def test_agent_rows_show_the_hint_once_and_only_to_the_hinted(data, talks):
    _, agent = talks
    for episode, talk in zip(library_rows.read(data / "episodes.jsonl"), agent, strict=True):
        shown = [message.content.count("Hint:") for message in talk if message.role == "user"]
        assert shown == [int(episode["with_hint"])] + [0] * (len(shown) - 1)


@pytest.mark.parametrize("style", HINT_STYLES)
def test_agent_rows_open_as_episodes_do(data, style):
    prompts = Prompts("compact")
    for episode in itertools.islice(library_rows.read(data / "episodes.jsonl"), 20):
        hint = episode["hint"] if episode["with_hint"] else None
        opened = opening(prompts, episode["turns"][0][0], hint, style)
        messages = library_rows.episode_example(episode, prompts, style).messages
        assert messages[: len(opened)] == opened
        assert len(messages) == len(opened) - 1 + 2 * len(episode["turns"])


def test_only_the_assistant_s_tokens_are_trained(examples, chat):
    for example in (*examples[:20], *examples[-50:]):
        (row,) = to_rows(example, chat)
        said = [t for t, m in zip(row.tokens, row.mask, strict=True) if m]
        want = [
            token
            for message in example.messages
            if message.role == "assistant"
            for token in chat.reply(message.content)
        ]
        assert said == want


def test_context_tokens_weigh_as_told_and_padding_nothing():
    batch = empty(1, 6)
    batch.segment_ids[0, :5] = 1
    batch.weights[0, 3:5] = 1.0
    np.testing.assert_allclose(_weights(batch, 0.2)[0], [0.1, 0.1, 0.1, 0.5, 0.5, 0.0])


def test_number_embeddings_keep_the_scale_and_order_the_numbers(chat):
    tokenizer = chat._tokenizer
    before = np.random.default_rng(0).normal(0, 0.1, (400, 64)).astype(np.float32)
    params = {"embedding": jnp.asarray(before)}
    after = np.asarray(number_embeddings(params, tokenizer)["embedding"])
    ids = [tokenizer.encode(str(n))[0] for n in (10, 11, 40)]
    near, far = after[ids[0]] @ after[ids[1]], after[ids[0]] @ after[ids[2]]
    assert near > far
    assert after[ids].std() == pytest.approx(before.std(), rel=0.2)
    untouched = tokenizer.special("user")
    np.testing.assert_array_equal(after[untouched], before[untouched])
