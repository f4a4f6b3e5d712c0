"""Bad settings stop a run before anything expensive, naming key, value and expectation."""

import re
import subprocess
import sys

import pytest

from configs import base, smollm2_135m, tiny, tiny_tool_use
from spade_jax.config import ConfigError, validate


@pytest.mark.parametrize(
    "key,value,expected",
    [
        ("agent.plays_per_env", 0, "at least 1"),
        ("agent.plays_per_env", 7, "multiple of agent.seeds_per_env=2"),
        ("agent.hint_plays_per_env", 3, "multiple of agent.seeds_per_env=2"),
        ("designer.temperature", -0.5, "at least 0"),
        ("designer.temperature", "hot", "at least 0"),
        ("designer.reward", "fame", "one of blend, learning_potential, micro_lp, plateau, regret,"),
        ("designer.guards", ("replay", "luck"), "names among replay, guesses, partial_credit"),
        ("designer.guesses", 1, "at least 2"),
        ("designer.repair_turns", -1, "at least 0"),
        ("designer.average_slow", 1.5, r"in \[0, 1\]"),
        ("agent.format_bonus", -1.0, "at least 0"),
        ("curriculum.domain", "chess", "one of games, tool_use"),
        ("designer.delay", 3, "at most curriculum.regen_interval=1"),
        ("curriculum.skills_per_regen", 9, "number of curriculum.skills=6"),
        ("agent.baseline", "batch", "one of group, moving"),
        ("agent.baseline_decay", -0.5, r"in \[0, 1\]"),
        ("learner.agent.length", 100, r"at least sampler.agent.max_len - 1 = 159"),
        ("model.preset", "huge", "one of"),
        ("model.attention", "flash", "one of auto, cudnn, splash, xla"),
        ("model.experts", "none", "one of auto, dense, gmm, ragged"),
        ("prompts", "baroque", "one of chat, compact, full"),
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
        ("curriculum.adaptive.controller", "luck", "one of learning_potential, sliding_window"),
        ("memory.band", (0.5,), "two rising shares"),
        ("memory.band", (0.9, 0.1), "two rising shares"),
        ("warm_start.sources", ("books",), "library or jsonl:PATH in place of 'books'"),
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
        ("agent.hint_style", "shouted", "one of append, prepend, system"),
        ("agent.thinking", True, "None, as text.chat=tiny cannot think; qwen3, "),
        ("designer.thinking", False, "None, as text.chat=tiny cannot think; qwen3, "),
        ("hints.source", "oracle", "one of external, inline, self"),
        ("hints.leak_share", 0.0, "above 0"),
        ("hints.on_leak", "keep", "one of drop, reject"),
        ("audit.unknown", "valid", "one of accept, reject"),
        ("remote.base_url", "host:8000/v1", "http://... or https://"),
        ("remote.fields", ("stream",), "fields among max_tokens, max_completion_tokens"),
        ("remote.deadline_s", 0.0, "above 0"),
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


def test_skills_are_of_the_library_s_domain_where_it_warms_the_run_up():
    config = tiny_tool_use.get_config()
    config.curriculum.skills = tiny.get_config().curriculum.skills
    with pytest.raises(ConfigError, match="curriculum.skills=.*skills of curriculum.domain=tool"):
        validate(config)
    config.warm_start.steps = config.eval.episodes = config.eval.greedy = 0
    validate(config)


@pytest.mark.parametrize("key", ["episodes", "greedy"])
def test_a_new_model_that_learns_tool_use_is_not_scored_on_games(key):
    config = tiny_tool_use.get_config()
    config.eval[key] = 2
    with pytest.raises(ConfigError, match=f"eval.{key}=2: expected 0: held-out"):
        validate(config)


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
    "key,value,expected",
    [
        ("curriculum.source", "adaptive", "agent.baseline='moving': expected group, as curric"),
        ("agent.group", "seed", "agent.group='seed': expected environment, as agent.baseline"),
        ("learner.drop_zero_variance", True, "learner.drop_zero_variance=True: expected False"),
    ],
)
def test_a_moving_baseline_is_of_an_environment_that_lasts(key, value, expected):
    config = tiny.get_config()
    config.update_from_flattened_dict({key: value})
    validate(config)
    config.agent.baseline = "moving"
    with pytest.raises(ConfigError, match=expected):
        validate(config)


def test_the_yardstick_measures_environments_that_last():
    config = tiny.get_config()
    config.yardstick.enabled, config.curriculum.source = True, "adaptive"
    with pytest.raises(ConfigError, match="yardstick.enabled=True: expected False, as curric"):
        validate(config)


@pytest.mark.parametrize(
    "key,value",
    [("hints.source", "external"), ("audit.enabled", True), ("yardstick.enabled", True)],
)
def test_who_needs_a_server_says_which(key, value):
    config = tiny.get_config()
    section, _, field = key.partition(".")
    config[section][field] = value
    with pytest.raises(ConfigError, match=f"remote.base_url=''.* as {section}.* needs one"):
        validate(config)
    config.remote.base_url = "http://host/v1"
    with pytest.raises(ConfigError, match="remote.model=''"):
        validate(config)
    config.remote.model = "m"
    validate(config)
    config.hints.source = config.audit.source = "self"
    config.yardstick.enabled, config.remote.base_url = False, ""
    validate(config)


@pytest.mark.parametrize("source", [{"source": "adaptive"}, {"source": "folder", "folder": "w"}])
@pytest.mark.parametrize(
    "key,value,expected",
    [
        ("audit.enabled", True, "False"),
        ("hints.source", "external", "inline or self"),
        ("hints.leak_check", True, "False"),
    ],
)
def test_environments_that_nobody_designs_are_neither_audited_nor_given_hints(
    source, key, value, expected
):
    config = tiny.get_config()
    config.remote.base_url, config.remote.model = "http://host/v1", "m"
    section, _, field = key.partition(".")
    config[section][field] = value
    validate(config)
    config.curriculum.update({"source": "pool", "fixed_pool": 24})
    validate(config)
    config.curriculum.update({"fixed_pool": 0, **source})
    with pytest.raises(ConfigError, match=f"{key}=.*: expected {expected}, as curriculum.source="):
        validate(config)


def test_a_baseline_may_inherit_hints_of_the_model_itself():
    config = tiny.get_config()
    config.curriculum.source, config.hints.source = "adaptive", "self"
    validate(config)


def test_difficulty_hints_need_the_memory():
    config = tiny.get_config()
    config.curriculum.difficulty_hints = True
    validate(config)
    config.memory.enabled = False
    with pytest.raises(ConfigError, match="difficulty_hints=True: expected False, as memory.enab"):
        validate(config)


def test_an_answer_of_the_model_itself_fits_its_context():
    config = tiny.get_config()
    config.hints.max_new_tokens = 256
    validate(config)
    config.hints.source = "self"
    with pytest.raises(ConfigError, match="hints.max_new_tokens=256: .* sampler.designer.max_len"):
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


@pytest.mark.parametrize("chat", ["qwen3", "qwen3_thinking", "qwen3_no_thinking"])
def test_each_role_may_think_or_not_where_the_template_can(chat):
    config = smollm2_135m.get_config()
    config.text.chat, config.designer.thinking, config.agent.thinking = chat, True, False
    validate(config)
    config.text.chat = "chatml"
    with pytest.raises(ConfigError, match="designer.thinking=True: .* text.chat=chatml cannot"):
        validate(config)


@pytest.mark.parametrize("module", [base, tiny, tiny_tool_use])
def test_the_recipes_themselves_are_valid(module):
    validate(module.get_config())


@pytest.mark.parametrize(
    "recipe,argument,said",
    [
        ("tiny.py", "--config.agent.playz=3", "unknown setting .*playz"),
        ("tiny.py", "--config.agent.plays_per_env=0", "agent.plays_per_env=0: expected at least 1"),
        ("tiny.py", "--config.steps=many", "--config.steps=many: invalid literal"),
        ("tiny.py:tiny", "--config.steps=1", "--config=configs/tiny.py:tiny: .*py has no sizes$"),
        ("games_qwen3_4b.py:vast", "--count=1", "--config=configs/g.*py:vast: size 'vast' of the"),
        ("tiny.py", "--colour=blue", "Unknown command line flag 'colour'"),
    ],
)
def test_the_command_line_refuses_them_too(tmp_path, recipe, argument, said):
    command = [
        sys.executable, "-m", "spade_jax.main", f"--config=configs/{recipe}",
        f"--workdir={tmp_path}/run", argument,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert re.match(f"ConfigError: {said}", line)
    assert not (tmp_path / "run").exists()


def test_a_missing_config_file_is_named(tmp_path):
    command = [
        sys.executable, "-m", "spade_jax.main", "--config=configs/none.py", f"--workdir={tmp_path}"
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 and "none.py" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments,said", [([], "--workdir is missing"), (["--workdir=x", "y"], "unexpected arguments")]
)
def test_a_wrong_command_is_not_tried_again(arguments, said):
    command = [sys.executable, "-m", "spade_jax.main", "--config=configs/tiny.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and said in done.stdout + done.stderr
