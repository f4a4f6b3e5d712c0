"""`--mode=explain` as a user meets it."""

import subprocess
import sys

import pytest

from configs import base, games_qwen3_4b, games_qwen3_30b_a3b
from spade_jax.modes import explaining


def explain(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "spade_jax.main", "--mode=explain", *arguments],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def test_a_recipe_is_explained_without_a_workdir_a_cluster_or_its_weights():
    done = explain("--config=configs/games_qwen3_30b_a3b.py", "--config.seed=7")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "seed = 7" in lines and "designer.reward = 'blend'" in lines
    assert "  mesh.expert = 4  (there 1)" in lines
    first = lines.index(next(line for line in lines if "configs/games_qwen3_4b.py:" in line))
    last = lines.index(next(line for line in lines if "configs/base.py:" in line))
    assert first < last and "  seed = 7  (there 0)" in lines[first:last]
    assert any("episodes, both arms" in line and "480" in line for line in lines)


def test_an_impossible_setting_is_one_line():
    done = explain("--config=configs/tiny.py", "--config.designer.reward=money")
    assert done.returncode == 2
    assert done.stderr.startswith("ConfigError: designer.reward='money'")


@pytest.mark.parametrize(
    "recipe, expected",
    [(base, []), (games_qwen3_4b, [base]), (games_qwen3_30b_a3b, [games_qwen3_4b, base])],
)
def test_a_recipe_starts_from_what_it_imports(recipe, expected):
    assert list(explaining.bases(recipe)) == expected


def test_differences_name_keys_of_either_side():
    before, now = base.get_config(), base.get_config()
    now.agent.max_turns = 3
    with now.unlocked():
        del now.seed
    assert explaining.differences(before, now) == {"agent.max_turns": (25, 3), "seed": (0, None)}
