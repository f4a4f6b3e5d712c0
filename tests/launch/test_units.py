"""Sweeps and what they become."""

import runpy

import pytest

from launch.errors import LaunchError
from launch.jobs import PREEMPTED
from launch.sweeps import SWEEPS, Sweep
from launch.units import check_settings, units
from spade_jax import interrupt
from spade_jax.config import validate

SWEEP = Sweep(
    "configs/tiny.py", {"full": {}, "no memory": {"memory.enabled": False}}, (0, 7),
    common={"steps": 60},
)  # fmt: skip


def given(unit):
    return dict(word.removeprefix("--config.").split("=", 1) for word in unit.arguments[2:])


def test_every_arm_of_every_seed_is_a_unit_with_a_workdir_of_its_own():
    made = units(SWEEP, "runs/x/")
    assert [unit.name for unit in made] == [
        "seed_0/full", "seed_0/no_memory", "seed_7/full", "seed_7/no_memory"
    ]  # fmt: skip
    assert made[3].command("python") == (
        "python", "-m", "spade_jax.main", "--config=configs/tiny.py",
        "--workdir=runs/x/seed_7/no_memory", "--config.steps=60",
        "--config.compilation_cache=runs/x/compilation_cache", "--config.memory.enabled=False",
        "--config.seed=7",
    )  # fmt: skip
    assert all(unit.after is None for unit in made)


def test_settings_of_the_command_line_are_stronger_than_the_sweep_s():
    assert [given(unit)["steps"] for unit in units(SWEEP, "runs/x", {"steps": 3})] == ["3"] * 4


def test_a_shared_warm_start_is_a_unit_that_the_seed_s_arms_wait_for():
    shared = Sweep(SWEEP.config, SWEEP.arms, (0, 7), share_warm_start=True)
    made = units(shared, "gs://bucket/x")
    warm, arms = made[:2], made[2:]
    assert [unit.arguments[-1] for unit in warm] == ["--mode=warm_start"] * 2
    assert [unit.after for unit in warm] == [None, None]
    assert [unit.after for unit in arms] == ["seed_0/warm"] * 2 + ["seed_7/warm"] * 2
    assert [given(unit)["warm_start.path"] for unit in arms] == (
        ["/gcs/bucket/x/seed_0/warm"] * 2 + ["/gcs/bucket/x/seed_7/warm"] * 2
    )


def test_a_run_sees_its_bucket_as_a_folder():
    unit = units(SWEEP, "gs://bucket/x/")[0]
    assert unit.workdir == "gs://bucket/x/seed_0/full"
    assert "--workdir=/gcs/bucket/x/seed_0/full" in unit.arguments
    assert given(unit)["compilation_cache"] == "/gcs/bucket/x/compilation_cache"


def test_resources_in_a_cloud_have_short_names_of_their_own():
    long = [f"gs://bucket/{'Very_long_' * 9}/x", f"gs://bucket/{'Very_long_' * 9}/y", "gs://b/1/2"]
    names = [unit.resource for workdir in long for unit in units(SWEEP, workdir)]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 40 and name[0].isalpha() for name in names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)


@pytest.mark.parametrize("name", sorted(SWEEPS))
def test_every_sweep_changes_known_settings_to_possible_values(name):
    sweep = SWEEPS[name]
    for arm, overrides in sweep.arms.items():
        check_settings(sweep.recipe(arm), (*sweep.common, *overrides))
        recipe = runpy.run_path(sweep.recipe(arm))["get_config"]()
        recipe.update_from_flattened_dict({**sweep.common, **overrides})
        validate(recipe)


def test_arms_can_have_recipes_of_their_own_and_all_of_them_a_size():
    sweep = Sweep("configs/a.py", {"full": {}, "two": {}}, recipes={"two": "configs/b.py"})
    assert [unit.arguments[0] for unit in units(sweep, "runs/x")] == [
        "--config=configs/a.py", "--config=configs/b.py"
    ]  # fmt: skip
    assert [unit.arguments[0] for unit in units(sweep.sized("tiny"), "runs/x")] == [
        "--config=configs/a.py:tiny", "--config=configs/b.py:tiny"
    ]  # fmt: skip


def test_a_size_that_a_recipe_does_not_have_is_named():
    check_settings("configs/games_qwen3_4b.py:tiny", ["seed"])
    with pytest.raises(LaunchError, match=r"py:huge: size 'huge' of the recipe: expected tiny"):
        check_settings("configs/games_qwen3_4b.py:huge", [])
    with pytest.raises(LaunchError, match="^--size=tiny: configs/tiny.py has no sizes$"):
        check_settings("configs/tiny.py:tiny", [])


@pytest.mark.parametrize("key", ["stepss", "memory.enabledd", "steps.more"])
def test_an_unknown_setting_is_named(key):
    with pytest.raises(LaunchError, match=f"setting '{key}': expected a key of configs/tiny.py"):
        check_settings("configs/tiny.py", [key])


def test_a_recipe_that_is_not_there_is_named():
    with pytest.raises(LaunchError, match="--config=configs/none.py: expected a recipe"):
        check_settings("configs/none.py", [])


def test_the_exit_code_of_a_preempted_run_is_the_run_s_own():
    if not hasattr(interrupt, "PREEMPTED"):
        pytest.skip("runs do not tell yet that they were preempted")
    assert interrupt.PREEMPTED == PREEMPTED
