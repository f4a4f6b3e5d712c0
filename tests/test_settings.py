"""A folder belongs to the settings that made it."""

import pytest

from configs import tiny
from spade_jax.settings import SettingsError, differences, tie_to_config


def test_the_same_settings_may_come_back_and_some_may_change(tmp_path):
    config = tiny.get_config()
    tie_to_config(config, tmp_path)
    written = (tmp_path / "config.json").read_bytes()
    config.steps, config.eval.every, config.checkpoint.keep = 99, 7, 5
    config.warm_start.path = "elsewhere"
    config.mesh.fsdp, config.learner.agent.rows = 2, 4
    tie_to_config(config, tmp_path)
    assert (tmp_path / "config.json").read_bytes() == written
    assert differences(config, tmp_path) == []
    config.seed = 4
    assert differences(config, tmp_path) == ["seed"]


def test_other_settings_are_refused_by_name_with_both_values(tmp_path):
    config = tiny.get_config()
    tie_to_config(config, tmp_path)
    config.seed, config.agent.train_hint_arm = 4, False
    with pytest.raises(SettingsError) as error:
        tie_to_config(config, tmp_path)
    assert "seed=4 (there 0)" in str(error.value)
    assert "agent.train_hint_arm=False (there True)" in str(error.value)


def test_a_prefix_of_a_key_that_may_change_is_not_enough(tmp_path):
    config = tiny.get_config()
    tie_to_config(config, tmp_path)
    config.warm_start.steps += 1
    with pytest.raises(SettingsError, match="warm_start.steps"):
        tie_to_config(config, tmp_path)
