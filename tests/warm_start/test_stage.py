"""The warm start as a stage: it resumes exactly, and is lent only to runs it suits."""

import jax
import numpy as np
import pytest

from configs import tiny
from spade_jax import parallel, warm_start
from spade_jax.interrupt import StopRequest
from spade_jax.prompts import Prompts
from spade_jax.settings import tie_to_config
from spade_jax.warm_start import WarmStartError


def small():
    c = tiny.get_config()
    c.text.vocab_size = 800
    c.warm_start.designs, c.warm_start.episodes, c.warm_start.steps = 60, 200, 12
    c.warm_start.tokens, c.warm_start.save_every = 512, 5
    return c


def prepared(config, workdir):
    workdir.mkdir(exist_ok=True)
    tie_to_config(config, workdir)
    return warm_start.prepare(config, workdir, Prompts(config.prompts))


class StopAfter(StopRequest):
    """Asks the stage to stop when it asks for the `calls`-th time; by default never."""

    def __init__(self, calls=None):
        super().__init__(grace_s=1.0)
        self.calls, self.asked = calls, 0

    def requested(self):
        self.asked += 1
        return self.asked == self.calls


def trained(config, workdir, stop=None):
    warm = prepared(config, workdir)
    mesh = parallel.make_mesh({}, jax.devices()[:1])
    language = warm_start.fresh_language(config, mesh, warm)
    return warm_start.train(config, language, mesh, warm, lambda *_: None, stop or StopAfter())


@pytest.fixture(scope="module")
def lender(tmp_path_factory):
    """A workdir with a finished warm start, and its parameters."""
    workdir = tmp_path_factory.mktemp("lender")
    return workdir, jax.device_get(trained(small(), workdir))


def test_a_stopped_warm_start_goes_on_to_the_same_parameters(lender, tmp_path):
    stop = StopAfter(calls=7)
    assert trained(small(), tmp_path, stop) is None
    assert stop.asked == 7
    resumed = jax.device_get(trained(small(), tmp_path))
    jax.tree.map(np.testing.assert_array_equal, resumed, lender[1])


def test_a_borrowed_warm_start_gives_its_parameters_to_any_seed(lender, tmp_path):
    config = small()
    config.seed, config.warm_start.path = 5, str(lender[0])
    borrowed = jax.device_get(trained(config, tmp_path / "run"))
    jax.tree.map(np.testing.assert_array_equal, borrowed, lender[1])


def test_settings_that_do_not_shape_it_may_differ(lender, tmp_path):
    config = small()
    config.warm_start.path, config.memory.enabled = str(lender[0]), False
    prepared(config, tmp_path / "ablated")


@pytest.mark.parametrize(
    "key,value,there",
    [
        ("grounding.max_words", 30, 24),
        ("agent.max_turns", 9, 12),
        ("hints.source", "self", "inline"),
    ],
)
def test_settings_that_shape_it_must_agree(lender, tmp_path, key, value, there):
    config = small()
    config.update_from_flattened_dict({"warm_start.path": str(lender[0]), key: value})
    with pytest.raises(WarmStartError, match=rf"{key}={value!r} \(there {there!r}\)"):
        prepared(config, tmp_path / "other")
    assert not (tmp_path / "other" / "warm_start").exists()


def test_a_folder_that_is_no_workdir_of_this_version_is_refused(tmp_path):
    (tmp_path / "old" / "warm_start" / "main").mkdir(parents=True)
    config = small()
    config.warm_start.path = str(tmp_path / "old")
    with pytest.raises(WarmStartError, match="expected a workdir of this version"):
        prepared(config, tmp_path / "run")


def test_no_steps_leave_the_language_as_it_is(tmp_path):
    config = small()
    config.warm_start.steps = 0
    warm = prepared(config, tmp_path)
    language = warm_start.fresh_language(config, parallel.make_mesh({}, jax.devices()[:1]), warm)
    same = trained(config, tmp_path)
    jax.tree.map(np.testing.assert_array_equal, same, language.params())
    assert not (tmp_path / "warm_start" / "checkpoints").exists()
