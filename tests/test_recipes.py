"""Every recipe, baseline and ablation loads, runs an iteration at tiny size, and is what its name
says."""

import json
import pathlib
import runpy
import subprocess
import sys

import numpy as np
import pytest

from configs import games_qwen3_4b, sizes
from spade_jax import settings
from spade_jax.config import validate
from spade_jax.rl import Plays, RewardSettings
from spade_jax.rl.rewards import plateau

CONFIGS = pathlib.Path("configs")
PUBLISHED = sorted(
    {
        path.as_posix()
        for pattern in ("*_qwen3_*.py", "fixed_pool_*.py", "ablations/[a-z]*.py")
        for path in CONFIGS.glob(pattern)
    }
)
SAME = {  # as others but for the model, which tiny size takes away, or the name
    "configs/games_qwen3_4b.py", "configs/games_qwen3_8b.py",
    "configs/tool_use_qwen3_30b_a3b.py", "configs/ablations/fixed_pool.py",
}  # fmt: skip
LAPTOP = ["configs/base.py", "configs/smollm2_135m.py", "configs/tiny.py",
          "configs/tiny_tool_use.py"]  # fmt: skip
GAMES = "configs/games_qwen3_30b_a3b.py"


def load(recipe, *size):
    return runpy.run_path(recipe)["get_config"](*size)


def test_every_file_is_a_recipe_that_is_tested_here():
    files = {p.as_posix() for p in CONFIGS.rglob("*.py") if "pools" not in p.parts}
    assert files - {"configs/sizes.py"} == {
        *PUBLISHED, *LAPTOP, "configs/__init__.py", "configs/ablations/__init__.py",
    }  # fmt: skip


@pytest.mark.parametrize("recipe", PUBLISHED + LAPTOP)
def test_recipes_are_possible_as_published(recipe):
    validate(load(recipe))


@pytest.mark.parametrize("recipe", PUBLISHED)
def test_recipes_of_one_size_share_the_shapes_of_their_programs(recipe):
    config, other = load(recipe, "tiny"), load("configs/games_qwen3_4b.py", "tiny")
    validate(config)
    shapes = "model.", "sampler.", "learner.designer.", "learner.agent.", "mesh.", "replica."
    flat, expected = settings.flat(config), settings.flat(other)
    assert [k for k in flat if k.startswith(shapes) and flat[k] != expected[k]] == []


def test_a_size_that_is_not_known_is_named():
    with pytest.raises(ValueError, match="size 'vast' of the recipe: expected tiny, or none"):
        sizes.fit(games_qwen3_4b.get_config(), "vast")


@pytest.mark.parametrize(
    "name,changed",
    [
        ("no_corpus", {"grounding.enabled"}),
        ("no_memory", {"memory.enabled"}),
        ("no_designer_training_no_memory", {"designer.train", "memory.enabled"}),
        ("fixed_pool", {"curriculum.source", "curriculum.folder"}),
        ("two_skills", {"curriculum.skills", "curriculum.skills_per_regen"}),
        ("learning_potential", {"designer.reward"}),
        ("solve_rate", {"designer.reward"}),
    ],
)
def test_an_ablation_changes_what_its_name_says_and_no_more(name, changed):
    full, ablated = settings.flat(load(GAMES)), settings.flat(load(f"configs/ablations/{name}.py"))
    assert {key for key in full if full[key] != ablated[key]} == changed


def iterations(folder, recipes):
    """recipe -> what one iteration of it gave."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.recipes_worker", str(folder), *recipes],
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (folder / "found.jsonl").read_text().splitlines()
    return {line["recipe"]: line for line in map(json.loads, lines)}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return iterations(tmp_path_factory.mktemp("recipes"), [r for r in PUBLISHED if r not in SAME])


@pytest.fixture(scope="module")
def found_of_the_same(tmp_path_factory):
    return iterations(tmp_path_factory.mktemp("same"), sorted(SAME))


def assert_plays_and_trains(recipe, metrics):
    config = load(recipe, "tiny")
    designs = config.curriculum.source == "designer"
    envs, plays = config.curriculum.num_envs, config.agent.plays_per_env
    hinted = config.agent.hint_plays_per_env if config.curriculum.source != "adaptive" else 0
    assert metrics["agent/episodes"] == envs * (plays + hinted)
    assert metrics["agent/void_fraction"] == 0
    assert ("designer/regret" in metrics) == bool(hinted)
    assert ("designer/designs" in metrics) == designs
    assert ("designer/grad_norm" in metrics) == (designs and config.designer.train)


@pytest.mark.parametrize("recipe", [recipe for recipe in PUBLISHED if recipe not in SAME])
def test_an_iteration_plays_and_trains(found, recipe):
    assert_plays_and_trains(recipe, found[recipe]["metrics"])


@pytest.mark.soak
@pytest.mark.parametrize("recipe", sorted(SAME))
def test_an_iteration_of_the_same_does_too(found_of_the_same, recipe):
    assert_plays_and_trains(recipe, found_of_the_same[recipe]["metrics"])


def asked(found, name):
    return [text for text in found[name]["asked"] if "Skill: " in text]


def test_designs_are_grounded_and_remember_unless_that_is_ablated(found):
    def shown(name, word):
        return {word in text for text in asked(found, f"configs/{name}.py")}

    for name in ("games_qwen3_30b_a3b", "ablations/solve_rate"):
        assert shown(name, "Document: ") == shown(name, "Example, win rate 0.5") == {True}
    assert shown("ablations/no_corpus", "Document: ") == {False}
    assert shown("ablations/no_corpus", "Example, win rate 0.5") == {True}
    for name in ("no_memory", "no_designer_training_no_memory"):
        assert shown(f"ablations/{name}", "Example, win rate") == {False}
        assert shown(f"ablations/{name}", "Document: ") == {True}


def test_two_skills_are_two_and_tool_use_has_its_own(found):
    def skills(name):
        return {design["skill"] for design in found[name]["designs"]}

    assert skills("configs/ablations/two_skills.py") == {
        "mathematical reasoning", "logical deduction"
    }  # fmt: skip
    config = load("configs/tool_use_qwen3_8b.py", "tiny")
    assert skills("configs/tool_use_qwen3_8b.py") == set(config.curriculum.skills[:3])


def played(found, name):
    """(mean return with the hint, returns without it, reward) of each paid design."""
    for design in found[f"configs/{name}.py"]["designs"]:
        if design["reward"] is not None:
            (window,) = design["windows"]
            yield np.mean(design["hint_returns"]), window, design["reward"]


def test_each_reward_is_the_recipe_s(found):
    for _, window, reward in played(found, "ablations/solve_rate"):
        plays = Plays(np.zeros(1), (np.asarray(window),))
        assert reward == pytest.approx(plateau(plays, RewardSettings()))
    for hinted, window, reward in played(found, "tool_use_qwen3_4b"):
        assert reward == pytest.approx(max(0.0, hinted - np.mean(window)))
    metrics = found["configs/ablations/learning_potential.py"]["metrics"]
    slow = [v for name, v in metrics.items() if name.startswith("designer/return_slow/")]
    rewards = [(np.mean(w), r) for _, w, r in played(found, "ablations/learning_potential")]
    assert rewards and all(
        any(reward == pytest.approx(abs(mean - value)) for value in slow)
        for mean, reward in rewards
    )


def test_tool_use_is_audited_by_the_model_itself(found):
    line = found["configs/tool_use_qwen3_4b.py"]
    assert line["metrics"]["audit/solvable"] == len(line["designs"]) > 0
    assert {design["audit"] for design in line["designs"]} == {"solvable"}
    assert "audit/solvable" not in found[GAMES]["metrics"]


def test_pools_are_walked_and_levels_are_chosen(found):
    metrics = found["configs/fixed_pool_qwen3_30b_a3b.py"]["metrics"]
    assert (metrics["pool/size"], metrics["pool/left"]) == (32, 26)
    window = found["configs/fixed_pool_sliding_window.py"]["metrics"]
    potential = found["configs/fixed_pool_learning_potential.py"]["metrics"]
    assert window["adaptive/top_level"] == 0 < potential["adaptive/top_level"]
