"""Which arms an environment is played in."""

from types import SimpleNamespace

import pytest

from configs import base
from spade_jax.cycle import play_arms
from spade_jax.designer import Environment
from spade_jax.rollout import Episode, Trajectory


class Winner:
    """Plays nothing and wins with a hint."""

    def play(self, programs, settings):
        self.asked = [[request.hint for request in program.plays] for program in programs]
        return [
            [
                Episode(SimpleNamespace(seed=request.seed), outcome="terminated", reward=reward)
                for request in program.plays
                for reward in [float(bool(request.hint))]
            ]
            for program in programs
        ]


@pytest.mark.parametrize(
    "hint,leaked,born,arms",
    [("help", False, 3, "both"), ("help", False, 2, "plain"), ("", False, 3, "plain"),
     ("", True, 3, "alike")],
)  # fmt: skip
def test_the_arm_with_the_hint_is_played_at_birth(hint, leaked, born, arms):
    config, player = base.get_config(), Winner()
    config.agent.plays_per_env = config.agent.hint_plays_per_env = 2
    rooms = SimpleNamespace(config=config, player=player, play_settings=None)
    made = Environment("e", "s", None, "", born, Trajectory(), hint=hint, leaked=leaked)
    episodes = play_arms(rooms, [made], 3)
    second = {"both": ["help"] * 2, "plain": [], "alike": [""] * 2}[arms]
    assert player.asked == [[None, None, *second]]
    assert [len(episodes[arm][0]) for arm in ("plain", "hint")] == [2, len(second)]
    plays = made.plays()
    assert (plays and plays.gap) == {"both": 1.0, "plain": None, "alike": 0.0}[arms]
