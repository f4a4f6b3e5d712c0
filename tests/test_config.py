"""Bad settings stop a run before anything expensive, naming key, value and expectation."""

import subprocess
import sys

import pytest

from configs import base, tiny
from spade_jax.config import ConfigError, validate


@pytest.mark.parametrize(
    "key,value,expected",
    [
        ("agent.plays_per_env", 0, "at least 1"),
        ("agent.plays_per_env", 7, "multiple of agent.seeds_per_env=2"),
        ("agent.hint_plays_per_env", 3, "multiple of agent.seeds_per_env=2"),
        ("designer.temperature", -0.5, "at least 0"),
        ("designer.temperature", "hot", "at least 0"),
        ("designer.reward", "fame", "one of blend, micro_lp, plateau, regret, regret_var"),
        ("designer.delay", 3, "at most curriculum.regen_interval=1"),
        ("curriculum.skills_per_regen", 9, "number of curriculum.skills=6"),
        ("learner.agent.length", 100, r"at least sampler.agent.max_len - 1 = 159"),
        ("model.preset", "huge", "one of"),
        ("model.attention", "flash", "one of auto, cudnn, splash, xla"),
        ("model.experts", "none", "one of auto, dense, gmm, ragged"),
        ("prompts", "baroque", "one of chat, compact"),
        ("grounding.sources", ("jsonl:no/such/file.jsonl",), "an existing file"),
        ("grounding.weights", (1.0, 2.0), "one positive weight for each of the 1"),
        ("warm_start.path", "no/such/run", "a workdir with warm_start/"),
        ("steps", 0, "at least 1"),
        ("eval.greedy", -1, "at least 0"),
        ("designer.plateau_low", 0.9, "between 0 and designer.plateau_high=0.6"),
        ("curriculum.fixed_pool", 5, "0 or at least curriculum.num_envs=24"),
        ("curriculum.source", "thin air", "one of adaptive, designer, folder, pool"),
        ("curriculum.folder", "worlds", "nothing, as curriculum.source=designer"),
        ("curriculum.lifecycle", True, "False, as no pool persists"),
        ("curriculum.lifecycle_band", (0.9, 0.1), "two rising returns"),
        ("curriculum.adaptive.promote", 1.5, r"in \[0, 1\]"),
        ("sampler.agent.prefill_chunks", (64, 16), "rising numbers above 0"),
        ("agent.top_k", -1, "at least 0"),
        ("designer.top_p", 0.0, "above 0 up to 1"),
        ("agent.top_p", 1.5, "above 0 up to 1"),
        ("checkpoint.grace_s", 0.0, "above 0"),
        ("checkpoint.milestones_every", -1, "at least 0"),
        ("wandb.mode", "loud", "one of offline, online"),
        ("agent.max_new_tokens", 160, "below sampler.agent.max_len=160"),
        ("replica.processes", 2, "1: a replica of several processes is not there yet"),
        ("distributed.coordinator", "host0", "HOST:PORT of process 0"),
        ("distributed.timeout_s", 0.0, "at least 1"),
        ("distributed.heartbeat_s", 1, "at least 5"),
    ],
)
def test_impossible_values_are_refused_by_name(key, value, expected):
    config = tiny.get_config()
    section, _, field = key.rpartition(".")
    target = config
    for part in section.split(".") if section else ():
        target = target[part]
    with config.ignore_type():
        target[field] = value
    with pytest.raises(ConfigError, match=expected) as caught:
        validate(config)
    assert str(caught.value).startswith(f"{key}=")
    assert str(value[0] if isinstance(value, tuple) else value) in str(caught.value)


@pytest.mark.parametrize(
    "changes,expected",
    [
        ({"source": "pool"}, "fixed_pool=0: expected at least curriculum.num_envs=24"),
        ({"source": "folder"}, "folder='': expected a folder"),
        ({"source": "folder", "fixed_pool": 64}, "fixed_pool=64: expected 0"),
        ({"source": "adaptive", "replay_envs": 2}, "replay_envs=2: expected 0"),
        ({"fixed_pool": 64, "replay_envs": 2}, "replay_envs=2: expected 0"),
    ],
)
def test_a_source_of_environments_says_what_it_needs(changes, expected):
    config = tiny.get_config()
    config.curriculum.update(changes)
    with pytest.raises(ConfigError, match=f"curriculum.{expected}"):
        validate(config)


@pytest.mark.parametrize(
    "changes",
    [
        {"replay_envs": 2},
        {"fixed_pool": 64, "lifecycle": True, "replay_envs": 2},
        {"source": "pool", "fixed_pool": 64},
        {"source": "folder", "folder": "worlds"},
        {"source": "adaptive"},
    ],
)
def test_sources_that_have_what_they_need_are_fine(changes):
    config = tiny.get_config()
    config.curriculum.update(changes)
    validate(config)


def test_rows_must_divide_over_the_data_axes():
    config = tiny.get_config()
    config.mesh.data, config.mesh.fsdp = 5, 1
    with pytest.raises(ConfigError, match="multiple of mesh.data"):
        validate(config)


def test_slots_must_divide_over_the_data_axes_of_a_replica():
    config = tiny.get_config()
    config.mesh.fsdp, config.replica.fsdp = 8, 9
    with pytest.raises(ConfigError, match="sampler.designer.num_slots=24: .* replica.data"):
        validate(config)


@pytest.mark.parametrize("missing", ["num_processes", "process_id"])
def test_who_names_a_coordinator_numbers_the_processes_too(missing):
    config = tiny.get_config()
    config.distributed.enabled, config.distributed.coordinator = True, "host0:1234"
    config.distributed.num_processes, config.distributed.process_id = 2, 1
    validate(config)
    config.distributed[missing] = -1
    with pytest.raises(ConfigError, match=f"distributed.{missing}=-1"):
        validate(config)
    config.distributed.coordinator = ""
    validate(config)


def test_the_number_of_a_process_is_below_their_number():
    config = tiny.get_config()
    config.distributed.num_processes = config.distributed.process_id = 2
    with pytest.raises(ConfigError, match="below distributed.num_processes=2"):
        validate(config)


@pytest.mark.parametrize("module", [base, tiny])
def test_the_recipes_themselves_are_valid(module):
    validate(module.get_config())


@pytest.mark.parametrize(
    "argument,named",
    [
        ("--config.agent.playz=3", "playz"),
        ("--config.agent.plays_per_env=0", "agent.plays_per_env=0"),
        ("--config.steps=many", "many"),
    ],
)
def test_the_command_line_refuses_them_too(tmp_path, argument, named):
    command = [
        sys.executable, "-m", "spade_jax.main", "--config=configs/tiny.py",
        f"--workdir={tmp_path}/run", argument,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_missing_config_file_is_named(tmp_path):
    command = [
        sys.executable, "-m", "spade_jax.main", "--config=configs/none.py", f"--workdir={tmp_path}"
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 and "none.py" in done.stderr and "Traceback" not in done.stderr
