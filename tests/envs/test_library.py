"""The seed library: every family at every difficulty, expert play, documents and the generator."""

import json
import random
import re
from collections import Counter

import numpy as np
import pytest

from spade_jax.envs.library import (
    GAMES,
    Mixture,
    designs,
    draw_knob,
    expert_episode,
    idioms,
    knob_of,
    near_knob,
)
from spade_jax.envs.library.__main__ import main
from spade_jax.envs.library.documents import RESERVED, RESERVED_COLOURS, TOPICS, bundled
from spade_jax.envs.library.expert import environment_class
from spade_jax.envs.library.family import MOVE_FORMAT, VAGUE_HINTS, numbers
from spade_jax.grounding.bundled import PATH as BUNDLED
from tests.envs.library import CLEAR, KNOBS, play

every_family = pytest.mark.parametrize("family", GAMES.families.values(), ids=GAMES.families)


def test_every_skill_of_the_paper_has_one_or_two_families():
    count = Counter(family.skill for family in GAMES.families.values())
    assert set(count) == set(GAMES.skills)
    assert set(count.values()) <= {1, 2}
    assert len(GAMES.families) >= 8


@every_family
@pytest.mark.parametrize("knob", KNOBS)
def test_reference_solution_wins_line_by_line_on_every_seed(family, knob):
    rng = np.random.default_rng(knob)
    for seed in range(12):
        env = family.sample(rng, knob)
        game = environment_class(env.source)(max_turns=12)
        game.reset(seed)
        for line in game.solution().splitlines():
            _, reward, terminated, truncated, _ = game.step(rf"\boxed{{{line}}}")
        assert (reward, terminated, truncated) == (1.0, True, False)


@every_family
@pytest.mark.parametrize("knob", KNOBS)
def test_all_numbers_that_matter_stay_below_one_hundred(family, knob):
    rng = np.random.default_rng(knob)
    for seed in range(20):
        env = family.sample(rng, knob, CLEAR)
        game = environment_class(env.source)()
        observation, _ = game.reset(seed)
        assert max(numbers(f"{observation} {game.solution()} {env.hint}")) < 100


@every_family
def test_one_seed_gives_one_episode_whatever_the_global_random_state(family):
    env = family.sample(np.random.default_rng(1), 9)

    def transcript(state):
        random.seed(state)
        game = environment_class(env.source)()
        seen = [game.reset(5)]
        return seen + [game.step(action) for action in ("\\boxed{3}", "\\boxed{up 2}", "no box")]

    assert transcript(0) == transcript(1)


@every_family
@pytest.mark.parametrize("action", ["", "\\boxed{}", "\\boxed{x}", "7" * 9000, "\\boxed{²}", "١"])
def test_malformed_actions_never_win_and_the_episode_ends_in_time(family, action):
    env = family.sample(np.random.default_rng(2), 6)
    game = environment_class(env.source)(max_turns=50)
    game.reset(0)
    for _ in range(9):
        _, reward, terminated, truncated, _ = game.step(action)
        assert reward == 0.0 and not terminated
    assert truncated


@every_family
@pytest.mark.parametrize("knob", [3, 6])
def test_expert_with_hint_wins_nearly_always_on_easy_settings(family, knob):
    assert play(family, knob, with_hint=True)[0] >= 0.9


@every_family
def test_mechanic_can_be_found_out_from_feedback(family):
    """Without the hint the expert wins far more often than careless well-formed play does."""
    plain = play(family, 22, with_hint=False)[0]
    careless = play(family, 22, with_hint=True, noise=1.0)[0]
    assert plain > 0.3 and plain > careless + 0.15


@every_family
def test_hard_settings_stay_solvable_within_the_turn_budget(family):
    assert play(family, 36, with_hint=True)[0] > 0.6


@every_family
def test_difficulty_grows_with_the_knob(family):
    """Careless play wins less, and there are more numbers or larger ones to work with."""
    assert (
        play(family, 4, True, noise=1.0, count=150)[0]
        >= (play(family, 40, True, noise=1.0, count=150)[0])
    )

    def load(knob):
        rng = np.random.default_rng(knob)
        starts = [
            environment_class(family.sample(rng, knob).source)().reset(seed)[0]
            for seed in range(40)
        ]
        return np.mean([sum(numbers(start)) for start in starts])

    assert load(5) < load(12) < load(30) < load(55)


@every_family
def test_guessing_in_range_without_looking_wins_on_less_than_half(family):
    """A number up to the largest shown, or one of the words with such an amount, drawn blindly."""
    rng, wins = np.random.default_rng(18), 0.0
    for seed in range(150):
        game = environment_class(family.sample(rng, 3).source)()
        first, _ = game.reset(seed)
        words = first.partition(" with ")[2].replace(" or ", " ").split()
        ended = False
        while not ended:
            word = f"{words[int(rng.integers(len(words)))]} " if words else ""
            action = f"{word}{rng.integers(max(numbers(first)) + 1)}"
            _, reward, terminated, truncated, _ = game.step(rf"\boxed{{{action}}}")
            ended = terminated or truncated
            wins += reward if terminated else 0.0
    assert wins / 150 < 0.45


def test_search_outgrows_its_tries_even_for_a_perfect_player():
    rates = [play(GAMES.families["search"], knob, with_hint=True)[0] for knob in (13, 36, 60)]
    assert rates[0] == 1.0 and rates[0] > rates[1] > rates[2]


def test_knob_of_a_source_without_the_constant_is_none():
    assert knob_of("class FooEnv:\n    M = 3\n    x = N = 4\n") is None
    assert knob_of("\n" * 200_000 + "N = 12345") is None  # quadratic: minutes
    assert knob_of("\n\n \t N = 12 \r\n\n") == 12


@every_family
def test_texts_are_short_enough_for_a_small_model(family):
    rng = np.random.default_rng(6)
    for knob in (3, 12, 36):
        for seed in range(10):
            env = family.sample(rng, knob)
            assert env.source.count("\n") + 1 <= 40
            assert len(env.source) <= 1700 and max(map(len, env.source.splitlines())) <= 100
            assert len(env.hint.split()) <= 25
            game = environment_class(env.source)()
            assert len(game.reset(seed)[0].split()) <= 12
            for action in ("\\boxed{1}", "\\boxed{up 1}"):
                assert len(game.step(action)[0].split()) <= 12


def test_sources_share_their_lines_across_families():
    rng = np.random.default_rng(8)
    lines = Counter()
    for family in GAMES.families.values():
        for _ in range(60):
            lines.update(set(family.sample(rng).source.splitlines()))
    assert len(lines) < 350


def test_idioms_are_distinct_and_cover_nearly_every_source_line():
    texts = idioms()
    assert len(set(texts)) == len(texts) < 250
    rng = np.random.default_rng(17)
    sources = [f.sample(rng).source + "\n" for f in GAMES.families.values() for _ in range(60)]
    lines = [line for source in sources for line in source.splitlines(keepends=True)]
    assert np.mean([line in texts for line in lines]) > 0.85
    beginnings = tuple(text for text in texts if text.startswith("    ") and text[-1] != "\n")
    assert all(line in texts or line.startswith(beginnings) for line in lines)
    assert all(any(text in source for source in sources) for text in texts if text[-1] == "\n")
    assert "crane" in texts and "red" in texts


@every_family
def test_hint_states_the_mechanic_and_the_format_unless_vague(family):
    rng = np.random.default_rng(9)
    drawn = [family.sample(rng) for _ in range(200)]
    assert all(env.hint.endswith(family.reply) for env in drawn)
    vague = [env for env in drawn if env.vague]
    assert 0.1 < len(vague) / len(drawn) < 0.4
    assert {env.hint.removesuffix(f" {family.reply}") for env in vague} <= set(VAGUE_HINTS)
    clear = {env.hint for env in drawn if not env.vague}
    assert len(clear) >= min(3, len(family.mechanics))


def test_vague_hint_leaves_the_expert_without_the_mechanic():
    lift, rng = GAMES.families["lift"], np.random.default_rng(10)
    vague = Mixture(vague_hints=1.0)
    wins = [
        expert_episode(lift.sample(rng, 9, vague), seed, True, 0.0, rng).final_return
        for seed in range(100)
    ]
    assert np.mean(wins) < 0.9 < play(lift, 9, with_hint=True)[0]
    assert lift.sample(rng, 9, vague).hint.endswith(MOVE_FORMAT)


def test_expert_noise_costs_wins():
    clean = np.mean([play(f, 8, True, count=40)[0] for f in GAMES.families.values()])
    noisy = np.mean([play(f, 8, True, noise=0.4, count=40)[0] for f in GAMES.families.values()])
    assert noisy < clean - 0.1


def test_difficulty_mix_is_mostly_easy_with_a_thin_hard_tail():
    rng = np.random.default_rng(11)
    drawn = np.array([draw_knob(rng, Mixture()) for _ in range(20000)])
    assert drawn.min() == 3 and np.median(drawn) in (4, 5) and drawn.max() <= 60
    assert 0.02 < np.mean(drawn >= 20) < 0.05


def test_near_knob_scatters_by_a_factor_around_its_argument():
    rng = np.random.default_rng(12)
    drawn = np.array([near_knob(rng, 20) for _ in range(4000)])
    assert abs(np.log(drawn / 20).mean()) < 0.03
    assert abs(np.log(drawn / 20).std() - 0.35) < 0.03
    assert near_knob(rng, 1000) == 60 and near_knob(rng, 1, spread=0.0) == 2


def test_designs_follow_the_mix():
    pairs = list(designs(3000, np.random.default_rng(13)))
    assert Counter(env.skill for env, _ in pairs) == dict.fromkeys(GAMES.skills, 500)
    with_memory = [(env, memory) for env, memory in pairs if memory]
    assert 0.45 < len(with_memory) / len(pairs) < 0.55
    assert all(env.skill == memory.skill for env, memory in with_memory)
    ratios = np.log([env.knob / memory.knob for env, memory in with_memory])
    assert np.median(np.abs(ratios)) < 0.4
    grounded = [any(cue in env.document for cue in GAMES.cues) for env, _ in pairs]
    assert 0.65 < np.mean(grounded) < 0.75
    assert 0.03 < np.mean([not env.document for env, _ in pairs]) < 0.07


def test_grounded_documents_name_the_noun_and_the_colours_of_the_source():
    rng = np.random.default_rng(14)
    always = Mixture(generic_documents=0.0, no_document=0.0)
    for family in GAMES.families.values():
        for _ in range(20):
            env = family.sample(rng, settings=always)
            noun = env.source.split('NAME = "')[1].split('"')[0]
            assert f" {noun}" in env.document
            assert all(colour in env.document for colour in family.colours(env.mechanic))


def test_no_document_states_a_number():
    rng = np.random.default_rng(15)
    assert not any(numbers(family.sample(rng).document) for family in GAMES.families.values())


def test_training_sources_never_take_a_reserved_noun():
    reserved = set(RESERVED["dev"] + RESERVED["test"])
    assert reserved < {noun for nouns in TOPICS.values() for noun in nouns}
    for env, _ in designs(2000, np.random.default_rng(16)):
        assert env.source.split('NAME = "')[1].split('"')[0] not in reserved


def test_bundled_corpus_is_what_the_generator_writes_and_well_formed():
    records = [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
    assert records == list(bundled(GAMES.cues))
    assert len(records) >= 200 and BUNDLED.stat().st_size < 150_000
    assert len({record["id"] for record in records}) == len(records)
    assert len({record["text"] for record in records}) > 0.95 * len(records)
    for record in records:
        assert set(record) == {"id", "text", "topic"}
        assert 20 <= len(record["text"].split()) <= 60 and not numbers(record["text"])
        assert record["topic"] in TOPICS or record["topic"] == "generic"


def test_no_document_of_the_corpus_offers_a_reserved_pair_of_colours():
    for record in bundled(GAMES.cues):
        words = set(record["text"].replace(".", "").split())
        assert not any(set(pair) <= words for pair in RESERVED_COLOURS.values())


@every_family
def test_expert_actions_always_have_the_form_that_the_environment_reads(family):
    rng = np.random.default_rng(11)
    form = r"\w+ \d{1,2}" if family.reply == MOVE_FORMAT else r"\d{1,2}"
    for seed in range(150):
        env = family.sample(rng)
        for _, action in expert_episode(env, seed, seed % 2 == 0, 0.2, rng).turns:
            assert re.fullmatch(form, action)


def test_generator_writes_both_files_and_depends_on_its_seed_alone(tmp_path):
    def rows(name, seed):
        size = ["--designs=60", "--episodes=300"]
        main([f"--out={tmp_path / name}", f"--seed={seed}", *size])
        return [(tmp_path / name / f"{kind}.jsonl").read_text() for kind in ("designs", "episodes")]

    first, again, other = rows("a", 1), rows("b", 1), rows("c", 2)
    assert first == again
    assert first[0] != other[0] and first[1] != other[1]
    design = [json.loads(line) for line in first[0].splitlines()]
    episode = [json.loads(line) for line in first[1].splitlines()]
    assert (len(design), len(episode)) == (60, 300)
    keys = {"family", "skill", "knob", "document", "source", "hint", "memory"}
    assert all(set(row) == keys for row in design)
    assert {row["with_hint"] for row in episode} == {True, False}
    assert {row["return"] for row in episode} == {0.0, 1.0}
    assert {row["family"] for row in episode} == set(GAMES.families)


def test_overrides_reach_the_settings(tmp_path):
    main([f"--out={tmp_path}", "--designs=60", "--episodes=10", "--memory=0"])
    rows = (tmp_path / "designs.jsonl").read_text().splitlines()
    assert all(json.loads(row)["memory"] is None for row in rows)
