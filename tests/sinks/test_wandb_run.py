"""The calls that Weights & Biases gets, recorded by a stand-in for its package."""

import sys
from types import SimpleNamespace

import pytest

from configs import tiny
from spade_jax.metrics import MetricsWriter
from spade_jax.sinks import WandbError, WandbRun


class UsageError(Exception):
    pass


class AuthenticationError(Exception):
    pass


class Run:
    def __init__(self, server, resumed):
        self._server, self.resumed = server, resumed

    @property
    def step(self):
        return self._server.step

    def log(self, numbers, step, commit):
        if self._server.broken:
            raise ConnectionError("the service has ended")
        assert commit and step >= self._server.step
        self._server.rows.append((step, numbers))
        self._server.step = step + 1

    def finish(self):
        self._server.finished += 1


class Wandb:
    """The package and the server at once. `modes` maps a mode to the error of its start."""

    errors = SimpleNamespace(UsageError=UsageError, AuthenticationError=AuthenticationError)

    def __init__(self):
        self.calls, self.rows, self.step, self.finished = [], [], 0, 0
        self.broken, self.failing, self.in_use = False, {}, None

    def Settings(self, **settings):
        return settings

    def init(self, **options):
        self.calls.append(options)
        if self.in_use == options["id"]:
            raise RuntimeError("run ID is in use")
        if error := self.failing.get(options["mode"]):
            self.in_use = options["id"]
            raise error
        known = any(call["id"] == options["id"] for call in self.calls[:-1])
        return Run(self, resumed=known and options["mode"] == "online")


    def teardown(self):
        self.in_use = None


@pytest.fixture
def wandb(monkeypatch):
    package = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", package)
    return package


def recipe(**section):
    config = tiny.get_config()
    config.wandb.update({"project": "worlds", "tags": ("a", "b"), **section})
    return config


def play(workdir, steps, redo_from=None, **section):
    with MetricsWriter(workdir, [WandbRun(recipe(**section), workdir)]) as writer:
        if redo_from is not None:
            writer.truncate_after(redo_from)
        for step in steps:
            writer.write(step, {"loss": float(step)})


def test_a_run_has_the_settings_and_every_step(wandb, tmp_path):
    play(tmp_path / "my run", range(3), entity="lab")
    (call,) = wandb.calls
    assert call["project"] == "worlds" and call["entity"] == "lab" and call["tags"] == ["a", "b"]
    assert call["name"] == "my run" and call["id"].startswith("my_run-")
    assert call["resume"] == "allow" and call["mode"] == "online"
    assert call["config"]["agent"]["plays_per_env"] == 6
    assert call["settings"]["finish_timeout"] > 0 and call["settings"]["init_timeout"] > 0
    assert wandb.rows == [(step, {"loss": float(step)}) for step in range(3)]
    assert wandb.finished == 1


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_resumed_run_goes_on_with_the_same_id_and_sends_no_step_twice(wandb, tmp_path, mode):
    play(tmp_path, range(4), mode=mode)
    play(tmp_path, range(2, 6), redo_from=1, mode=mode)
    assert wandb.calls[0]["id"] == wandb.calls[1]["id"]
    assert [step for step, _ in wandb.rows] == [0, 1, 2, 3, 4, 5]


def test_what_a_killed_process_had_not_sent_is_sent_when_it_is_redone(wandb, tmp_path):
    play(tmp_path, range(4))
    wandb.rows, wandb.step = wandb.rows[:2], 2
    play(tmp_path, range(1, 5), redo_from=0)
    assert [step for step, _ in wandb.rows] == [0, 1, 2, 3, 4]


def test_two_workdirs_are_two_runs(wandb, tmp_path):
    for parent in ("a", "b"):
        play(tmp_path / parent / "run", [0])
    assert wandb.calls[0]["id"] != wandb.calls[1]["id"]


def test_without_a_network_the_run_is_kept_offline(wandb, tmp_path, capsys):
    wandb.failing = {"online": TimeoutError("no answer")}
    play(tmp_path, range(3))
    assert [call["mode"] for call in wandb.calls] == ["online", "offline"]
    assert len(wandb.rows) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("can not be reached") == 1 and "wandb sync" in said


def test_failures_later_are_said_once_and_cost_nothing_else(wandb, tmp_path, capsys):
    with MetricsWriter(tmp_path, [WandbRun(recipe(), tmp_path)]) as writer:
        writer.write(0, {})
        wandb.broken = True
        for step in range(1, 5):
            writer.write(step, {"loss": 1.0})
    assert "".join(capsys.readouterr().out).count("ConnectionError") == 1
    assert (tmp_path / "metrics.jsonl").read_bytes().count(b"\n") == 5


def test_when_nothing_can_start_the_training_goes_on(wandb, tmp_path, capsys):
    wandb.failing = {"online": TimeoutError("no answer"), "offline": OSError("no space")}
    play(tmp_path, range(2))
    assert "no space" in capsys.readouterr().out


@pytest.mark.parametrize("error", [UsageError("no API key"), AuthenticationError("bad key")])
def test_a_missing_account_is_an_error_that_names_the_settings(wandb, tmp_path, error):
    wandb.failing = {"online": error}
    with pytest.raises(WandbError, match="wandb.mode='online'.*wandb login.*'offline'"):
        WandbRun(recipe(), tmp_path)


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(WandbError, match=r"pip install 'spade_jax\[wandb\]'"):
        WandbRun(recipe(), tmp_path)
