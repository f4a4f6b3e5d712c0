"""What a mode opens, with several processes."""

import pytest

from configs import tiny, tiny_tool_use
from spade_jax.modes import ModeError, Options, run_eval, run_generate, run_play
from spade_jax.modes.opening import open_rooms
from spade_jax.parallel import HostError, Hosts


class Second(Hosts):
    """The second of two processes, to whom the first one says what it says itself."""

    index, count = 1, 2

    def all(self, what, value):
        return [value, value]


def test_a_workdir_that_is_not_shared_is_refused(tmp_path):
    with (
        pytest.raises(HostError, match="process 1 does not see .*run"),
        open_rooms(tiny.get_config(), tmp_path / "run", Second()),
    ):
        pass


def test_modes_for_one_process_say_so(tmp_path):
    (tmp_path / "game.py").write_text("")
    several = {"hosts": Second()}
    config = tiny.get_config()
    config.model.checkpoint = "smollm2_135m"
    with pytest.raises(ModeError, match="generate --prompt is for one process"):
        run_generate(config, tmp_path, Options(prompt="Hello?", **several))
    with pytest.raises(ModeError, match="play is for one process"):
        run_play(config, tmp_path, Options(env=str(tmp_path / "game.py"), **several))


def test_a_file_that_cannot_be_played_is_named_once(tmp_path):
    path = tmp_path / "game.py"
    path.write_bytes(b"\xff")
    config = tiny.get_config()
    config.model.checkpoint = "smollm2_135m"
    with pytest.raises(ModeError, match="expected UTF-8 text in game.py") as caught:
        run_play(config, tmp_path, Options(env=str(path), hosts=Hosts()))
    assert str(caught.value).startswith(f"--env={path}: expected")


def test_a_recipe_without_held_out_environments_says_so_when_it_is_scored(tmp_path):
    with pytest.raises(ModeError, match=r"expected eval\.episodes or eval\.greedy above 0"):
        run_eval(tiny_tool_use.get_config(), tmp_path, Options(hosts=Hosts()))
