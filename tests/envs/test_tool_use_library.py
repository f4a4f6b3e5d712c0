"""The tool-use families: every one at every difficulty, expert play, rows and real validation."""

import json
import random
from collections import Counter

import numpy as np
import pytest

from sandbox_runner import BlockingPool, Session
from spade_jax.designer import Environment, SkillMatcher, check_skills, validate
from spade_jax.envs.library import (
    DOMAINS,
    GAMES,
    designs,
    expert_episode,
    idioms,
)
from spade_jax.envs.library.__main__ import main
from spade_jax.envs.library.documents import bundled
from spade_jax.envs.library.expert import environment_class
from spade_jax.envs.library.family import VAGUE_HINTS, numbers
from spade_jax.envs.library.registry import family_named
from spade_jax.envs.library.tool_use.family import answer, call
from spade_jax.grounding.bundled import TOOL_USE_PATH
from spade_jax.rollout import Trajectory
from tests.envs.library import CLEAR, KNOBS, play

DOMAIN = DOMAINS["tool_use"]
every_family = pytest.mark.parametrize("family", DOMAIN.families.values(), ids=DOMAIN.families)


@pytest.fixture(scope="module")
def pool():
    with BlockingPool() as pool:
        yield pool


def test_every_tool_use_skill_has_a_family_and_no_family_is_of_two_domains():
    assert {family.skill for family in DOMAIN.families.values()} == set(DOMAIN.skills)
    assert not set(DOMAIN.families) & set(GAMES.families)
    assert not set(DOMAIN.skills) & set(GAMES.skills)
    for name in (*DOMAIN.families, *GAMES.families):
        assert family_named(name).name == name


@every_family
@pytest.mark.parametrize("knob", KNOBS)
def test_reference_solution_wins_line_by_line_on_every_seed(family, knob):
    rng = np.random.default_rng(knob)
    for seed in range(12):
        env = family.sample(rng, knob)
        game = environment_class(env.source)(max_turns=12)
        game.reset(seed)
        for line in game.solution().splitlines():
            _, reward, terminated, truncated, _ = game.step(line)
        assert (reward, terminated, truncated) == (1.0, True, False)


@every_family
@pytest.mark.parametrize("knob", KNOBS)
def test_all_numbers_that_matter_stay_below_one_hundred(family, knob):
    rng = np.random.default_rng(knob)
    for seed in range(20):
        env = family.sample(rng, knob, CLEAR)
        episode = expert_episode(env, seed, seed % 2 == 0, 0.0, rng)
        assert max(numbers(f"{env.hint} {episode.turns}")) < 100


@every_family
def test_one_seed_gives_one_episode_whatever_the_global_random_state(family):
    env = family.sample(np.random.default_rng(1), 9)
    actions = [call(tool, 5) for tool in family.tools] + ["no call"]

    def transcript(state):
        random.seed(state)
        game = environment_class(env.source)()
        return [game.reset(5), *(game.step(action) for action in actions)]

    assert transcript(0) == transcript(1)


@every_family
@pytest.mark.parametrize(
    "action",
    [
        "",
        "<answer></answer",
        "<answer>",
        r"\boxed{7}",
        "<tool_call>{}</tool_call>",
        '<tool_call>{"name": "fly", "arguments": {"number": 1}}</tool_call>',
        "<tool_call>" * 3000,
    ],
)
def test_malformed_actions_never_win_and_the_episode_ends_in_time(family, action):
    env = family.sample(np.random.default_rng(2), 6)
    game = environment_class(env.source)(max_turns=50)
    game.reset(0)
    for _ in range(family.turns):
        _, reward, terminated, truncated, _ = game.step(action)
        assert reward == 0.0 and not terminated
    assert truncated


@every_family
@pytest.mark.parametrize("arguments", [{}, {"number": "x"}, {"number": None}, {"amount": 3}])
def test_wrong_arguments_are_answered_with_an_error(family, arguments):
    game = environment_class(family.sample(np.random.default_rng(2), 6).source)()
    game.reset(0)
    for tool in family.tools:
        text = json.dumps({"name": tool, "arguments": arguments})
        observation, *_ = game.step(f"<tool_call>{text}</tool_call>")
        assert observation.startswith("Error")


@every_family
@pytest.mark.parametrize("knob", [3, 6, 36, 60])
def test_expert_with_hint_wins(family, knob):
    assert play(family, knob, with_hint=True)[0] >= 0.95


@every_family
def test_mechanic_can_be_found_out_from_feedback(family):
    """Without the hint the expert wins often; careless well-formed play does not."""
    plain = play(family, 22, with_hint=False)[0]
    careless = play(family, 22, with_hint=True, noise=1.0)[0]
    assert plain > 0.3 and careless < 0.1


@every_family
def test_difficulty_grows_with_the_knob(family):
    def load(knob):
        rng = np.random.default_rng(knob)
        starts = [
            environment_class(family.sample(rng, knob).source)().reset(seed)[0]
            for seed in range(60)
        ]
        return np.mean([sum(numbers(start)) for start in starts])

    assert load(5) < load(12) < load(30) < load(55)


def test_a_courier_s_first_call_fails_and_tells_how_to_mend_it():
    family, rng = DOMAIN.families["courier"], np.random.default_rng(4)
    for seed in range(60):
        played = expert_episode(family.sample(rng, settings=CLEAR), seed, True, 0.0, rng)
        (_, first), (error, _), (receipt, _) = played.turns
        assert str(numbers(played.turns[0][0])[0]) in first
        assert error.startswith("error") and receipt.startswith("sent")


def test_an_errand_reveals_its_three_instructions_one_after_the_other():
    family, rng = DOMAIN.families["errand"], np.random.default_rng(5)
    played = expert_episode(family.sample(rng, 6, CLEAR), 1, True, 0.0, rng)
    said = [text for text, _ in played.turns]
    assert [" to " in text for text in said] == [True, False] * 3
    assert [results is None for results in played.results] == [True, False] * 3
    assert [action == answer("ok") for _, action in played.turns] == [False, True] * 3


def test_an_order_is_asked_about_with_two_calls_in_one_reply():
    family, rng = DOMAIN.families["order"], np.random.default_rng(6)
    played = expert_episode(family.sample(rng, 6, CLEAR), 1, True, 0.0, rng)
    assert played.turns[0][1].count("<tool_call>") == 2
    first, second = played.results[1]
    assert first.startswith("stock ") and second.startswith("rate ")


@every_family
def test_texts_are_short_enough_for_a_small_model(family):
    rng = np.random.default_rng(6)
    for knob in (3, 12, 36):
        for seed in range(10):
            env = family.sample(rng, knob, CLEAR)
            assert env.source.count("\n") + 1 <= 40
            assert len(env.source) <= 1900 and max(map(len, env.source.splitlines())) <= 100
            assert len(env.hint.split()) <= 25
            episode = expert_episode(env, seed, seed % 2 == 0, 0.0, rng)
            assert all(len(text.split()) <= 12 for text, _ in episode.turns)


@every_family
def test_hint_states_the_mechanic_and_the_format_unless_vague(family):
    rng = np.random.default_rng(9)
    drawn = [family.sample(rng) for _ in range(200)]
    assert all(env.hint.endswith(family.reply) for env in drawn)
    vague = [env for env in drawn if env.vague]
    assert 0.1 < len(vague) / len(drawn) < 0.4
    assert {env.hint.removesuffix(f" {family.reply}") for env in vague} <= set(VAGUE_HINTS)
    assert len({env.hint for env in drawn if not env.vague}) >= min(3, len(family.mechanics))


def test_idioms_of_the_domain_cover_its_lines_and_calls_and_leave_the_games_alone():
    texts = idioms(DOMAIN)
    assert len(set(texts)) == len(texts) < 250
    rng = np.random.default_rng(17)
    families = DOMAIN.families.values()
    sources = [family.sample(rng).source + "\n" for family in families for _ in range(60)]
    lines = [line for source in sources for line in source.splitlines(keepends=True)]
    beginnings = tuple(text for text in texts if text.startswith("    ") and text[-1] != "\n")
    assert all(line in texts or line.startswith(beginnings) for line in lines)
    for family in families:
        for tool in family.tools:
            opening, closing = call(tool, 7).split("7")
            assert opening in texts and closing in texts
    assert not any("tool" in text for text in idioms())


def test_designs_of_the_domain_are_spread_over_its_skills():
    pairs = list(designs(600, np.random.default_rng(13), domain=DOMAIN))
    assert Counter(env.skill for env, _ in pairs) == dict.fromkeys(DOMAIN.skills, 100)
    assert all(env.skill == memory.skill for env, memory in pairs if memory)
    grounded = [any(cue in env.document for cue in DOMAIN.cues) for env, _ in pairs]
    assert 0.6 < np.mean(grounded) < 0.8
    assert not any(numbers(env.document) for env, _ in pairs)


def test_bundled_corpus_is_what_the_generator_writes():
    records = [json.loads(line) for line in TOOL_USE_PATH.read_text("utf-8").splitlines()]
    assert records == list(bundled(DOMAIN.cues))
    cued = [any(cue in record["text"] for cue in DOMAIN.cues) for record in records]
    assert np.mean(cued) > 0.4


def test_generator_writes_results_and_schemas_of_tool_use_episodes(tmp_path):
    main([f"--out={tmp_path}", "--domain=tool_use", "--designs=60", "--episodes=200"])
    episodes = [json.loads(line) for line in (tmp_path / "episodes.jsonl").open()]
    assert {row["family"] for row in episodes} == set(DOMAIN.families)
    for row in episodes:
        tools = {tool["function"]["name"] for tool in row["tools"]}
        assert tools == set(family_named(row["family"]).tools)
        assert row["results"][0] is None and len(row["results"]) == len(row["turns"])
        for (observation, _), results in zip(row["turns"], row["results"], strict=True):
            assert results is None or observation == "\n".join(results)


@every_family
@pytest.mark.parametrize("knob", [3, 12, 40])
def test_validation_accepts_every_family_and_knows_its_skill(pool, family, knob):
    matcher = SkillMatcher([
        (f.skill, name, f.sample(np.random.default_rng(k), 4 + k).source)
        for name, f in DOMAIN.families.items()
        for k in range(3)
    ])  # fmt: skip
    made = family.sample(np.random.default_rng(knob), knob)
    design = Environment(
        "e", made.skill, None, made.source, 0, Trajectory(), source=made.source, hint="h"
    )
    validate(pool, [design], 12)
    check_skills(matcher, [design], True, frozenset())
    assert design.accepted, (design.stage, design.reason)
    assert design.knob == knob and design.family == family.name and design.shareable


@every_family
def test_the_sandbox_plays_an_expert_s_episode_as_the_expert_saw_it(pool, family):
    rng = np.random.default_rng(8)
    env = family.sample(rng, 7, CLEAR)
    played = expert_episode(env, 3, False, 0.0, rng)
    (session,) = pool.open([env.source])
    assert isinstance(session, Session)
    (first,) = pool.reset([(session, 3)])
    assert (first.text, first.tools) == (played.turns[0][0], played.tools)
    later = [*played.turns[1:], None]
    for (_, action), seen, results in zip(
        played.turns, later, [*played.results[1:], None], strict=True
    ):
        (step,) = pool.step([(session, action)])
        if seen:
            assert (step.observation, step.tool_results) == (seen[0], results)
    assert max(0.0, step.reward) == played.final_return
    pool.close([session])
