"""Warm-start rows are what play makes of the same replies, tool messages included."""

import json

import numpy as np
import pytest

from configs import tiny_tool_use
from sandbox_runner import BlockingPool
from spade_jax.config import validate
from spade_jax.designer import DesignRequest, DesignSettings
from spade_jax.designer.design import prompt_of
from spade_jax.envs import Player, PlayRequest, Program
from spade_jax.envs.library import DOMAINS, Mixture, expert_episode, idioms
from spade_jax.envs.library.generate import episode_record
from spade_jax.envs.library.registry import family_named
from spade_jax.grounding import Document
from spade_jax.parallel import Hosts
from spade_jax.prompts import Prompts
from spade_jax.rollout import PlaySettings
from spade_jax.text import NUMBERS, TinyChat, parse_design, train_sentencepiece
from spade_jax.warm_start import library_rows
from spade_jax.warm_start.example import lines, to_rows
from tests.rollout.scripted import ScriptedEngine, in_turn

DOMAIN = DOMAINS["tool_use"]
PROMPTS = Prompts("compact")
CONFIG = tiny_tool_use.get_config()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "rows"
    mixture = {"hard_tail": 0.2}
    library_rows.generate(folder, 3, 300, 400, mixture, domain="tool_use")
    return folder


@pytest.fixture(scope="module")
def examples(data):
    words, snippet = CONFIG.grounding.max_words, CONFIG.memory.snippet
    return library_rows.examples(data, PROMPTS, words, snippet, seed=1)


@pytest.fixture(scope="module")
def chat(data, examples):
    atomic, size = [*NUMBERS, *idioms(DOMAIN)], CONFIG.text.vocab_size
    return TinyChat(train_sentencepiece(lines(examples), data / "t.model", size, atomic))


@pytest.fixture(scope="module")
def pool():
    with BlockingPool() as pool:
        yield pool


@pytest.mark.parametrize("hinted", [False, True])
@pytest.mark.parametrize("name", [*DOMAIN.families, "rule", "press"])
def test_a_row_is_the_trajectory_that_play_makes_of_the_expert_s_replies(chat, pool, name, hinted):
    rng = np.random.default_rng(6)
    env = family_named(name).sample(rng, 7, Mixture(vague_hints=0.0))
    played = expert_episode(env, 3, hinted, 0.1, rng)
    record = json.loads(json.dumps(episode_record(env, hinted, played)))
    example = library_rows.episode_example(record, PROMPTS)
    (row,) = to_rows(example, chat)

    said = [message.content for message in example.messages if message.role == "assistant"]
    engine = ScriptedEngine(in_turn(map(chat.reply, said)))
    player = Player(engine, chat, pool, PROMPTS, Hosts())
    request = PlayRequest(3, 0, env.hint if hinted else None)
    ((episode,),) = player.play([Program(env.source, True, (request,))], PlaySettings(1.0, 12, 16))
    (sampled,) = episode.trajectories
    assert (sampled.tokens, sampled.mask) == (row.tokens, row.mask)
    assert episode.final_return == played.final_return
    assert sum(row.mask) == sum(len(chat.reply(text)) for text in said)


def test_results_are_tool_messages_and_schemas_are_shown_once(examples, chat):
    agent = [example for example in examples if example.role == "agent"]
    spoken = {message.role for example in agent for message in example.messages}
    assert spoken == {"user", "assistant", "tool"}
    for example in agent[:40]:
        (row,) = to_rows(example, chat)
        tokens = row.tokens
        assert tokens.count(chat._roles["system"]) == 1
        shown = chat.decode(tokens).count("(number)")
        assert shown == len(example.tools) > 0
        results = [m for m in example.messages if m.role == "tool"]
        assert tokens.count(chat._roles["tool"]) == len(results)


def test_rows_of_the_recipe_fit_its_model(examples, chat):
    validate(CONFIG)
    for example in examples:
        (row,) = to_rows(example, chat)
        assert len(row.tokens) <= CONFIG.sampler[example.role].max_len
        for message in example.messages:
            if message.role == "assistant":
                assert len(chat.reply(message.content)) <= CONFIG[example.role].max_new_tokens


@pytest.mark.parametrize("inline_hint", [True, False])
@pytest.mark.parametrize("style", ["compact", "chat", "full"])
def test_the_designer_is_asked_as_in_self_play_and_answers_what_it_is_asked(
    data, style, inline_hint
):
    prompts, turns = Prompts(style), CONFIG.agent.max_turns
    rows = library_rows.examples(
        data, prompts, 99, 1600, seed=1, domain="tool_use", max_turns=turns, inline_hint=inline_hint
    )
    settings = DesignSettings(1.0, 96, turns, 1600, inline_hint=inline_hint, domain="tool_use")
    plain = [d for d in library_rows.read(data / "designs.jsonl") if not d["memory"]]
    designs = [row.messages for row in rows if row.role == "designer"]
    assert {parse_design(reply.content).hint is not None for _, reply in designs} == {inline_hint}
    shown = {prompt.content for prompt, _ in designs}
    for design in plain[:20]:
        document = Document("d", design["document"], {})
        request = DesignRequest("n", design["skill"], document, None, 0)
        assert prompt_of(prompts, request, settings) in shown
