"""The whole loop, end to end, on a model that has memorised a few seed designs."""

import contextlib
import json
import random
import shutil
import signal
import subprocess
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from configs import base
from spade_jax.cycle import agent_rows, role_gradients, scored_plays
from spade_jax.interrupt import INTERRUPTED, PREEMPTED
from spade_jax.metrics import read_metrics
from spade_jax.rollout import Episode, Trajectory
from tests.cycle.test_updating import Recorder
from tests.metrics_docs import undocumented
from tests.processes import as_group, descendants, started
from tests.small_runs import STEPS, WALL, assert_alike, command, comparable, run


def episode(won, seed=0, outcome="terminated"):
    trajectory = Trajectory()
    trajectory.append_sampled([5], [-1.0], 0)
    task = SimpleNamespace(seed=seed)
    return Episode(task, [trajectory], outcome=outcome, reward=float(won))


@pytest.mark.parametrize("trained", [False, True])
def test_each_arm_of_an_environment_is_its_own_advantage_group(trained):
    config = base.get_config()
    config.agent.train_hint_arm, config.agent.normalise = trained, False
    void = episode(True, outcome="void")
    episodes = {
        "plain": [[episode(False), episode(True), void], [episode(True)]],
        "hint": [[episode(True), episode(True), episode(True), episode(False)], []],
    }
    environments = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]
    plays, advantages = agent_rows(config, scored_plays(config, environments, episodes))
    plain, hint = [-0.5, 0.5, 0.0], [0.25, 0.25, 0.25, -0.75]
    np.testing.assert_allclose(advantages, plain + hint if trained else plain)
    assert len(plays) == len(advantages) and void not in plays


@pytest.mark.parametrize("outcome", ["truncated", "cut", "deadline", "context"])
def test_an_unfinished_episode_is_no_win_and_can_be_masked(outcome):
    config = base.get_config()
    episodes = {"plain": [[episode(True, outcome=outcome), episode(True)]], "hint": [[]]}
    scored = scored_plays(config, [SimpleNamespace(name="a")], episodes)
    plays, advantages = agent_rows(config, scored)
    assert len(plays) == 2 and advantages[0] < 0 < advantages[1]
    config.learner.mask_truncated = True
    plays, advantages = agent_rows(config, scored)
    assert [play.outcome for play in plays] == ["terminated"]
    assert advantages.tolist() == [1.0]  # 1 and 0 by their mean and std: the other one still counts


def test_all_rows_of_an_episode_get_its_advantage_and_share_its_weight():
    def row(*sampled):
        made = Trajectory()
        made.append_context([1])
        made.append_sampled(sampled, [-1.0] * len(sampled), 0)
        return made

    config, learner = base.get_config(), Recorder()
    config.learner.agent.rows, config.learner.agent.length = 1, 4
    rooms = SimpleNamespace(config=config, learner=learner)
    learned = SimpleNamespace(params=None, version=0)
    state = SimpleNamespace(learner=learned, reference=None)
    episodes = [[row(10, 11), row(12, 13, 14)], [row(20, 21, 22, 23)]]
    total, means = role_gradients(rooms, state, "agent", episodes, [0.5, -0.25], 0.5)
    assert total == len(learner.batches) == 3
    assert means["logprob_gap"] == pytest.approx(1.0)
    for batch in learner.batches:
        trained = batch.weights > 0
        first = batch.targets[trained].max() < 20
        np.testing.assert_allclose(batch.advantages[trained], 0.5 if first else -0.25)
        np.testing.assert_allclose(batch.weights[trained], 0.5 / 2 / (5 if first else 4))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run's workdir and what it printed."""
    workdir = tmp_path_factory.mktemp("run")
    shared = {"compilation_cache": jax.config.jax_compilation_cache_dir}
    return workdir, run(workdir, **shared), shared


def test_a_run_shows_every_part_of_self_play(finished):
    workdir, printed, _ = finished
    rows = read_metrics(workdir)
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert sum(row["designer/environments"] for row in rows[1:]) > 0
    assert sum(row["designer/designs"] for row in rows[1:]) == 6 * STEPS
    assert all(row["train/logprob_gap"] < 1e-3 for row in rows[1:])
    assert any(row["designer/grad_norm"] > 0 for row in rows[1:])
    assert sum(row["agent/episodes"] for row in rows[1:]) > 0
    assert all(row["rate/designer_tokens"] > 0 for row in rows[1:])
    assert all(0 < row["sampler/designer/slot_use"] <= 1 for row in rows[1:])
    assert rows[-1]["memory/records"] >= rows[1]["memory/records"]
    for name in ("sampled/all", "greedy/all", "sampled/level_4"):
        assert f"eval/dev/{name}" in rows[0] and f"eval/dev/{name}" in rows[-1]
    for label in ("designs valid", "regret", "held-out dev, greedy, all", "gradient norm, agent"):
        assert label in printed


def test_every_metric_of_a_run_is_documented(finished):
    workdir, _, _ = finished
    names = {name for row in read_metrics(workdir) for name in row}
    assert undocumented(names) == set()
    per_skill = {name.rpartition("/")[0] for name in names if name.endswith("optimization")}
    assert {"agent/win_rate", "designer/valid_fraction", "designer/reward"} <= per_skill


def test_every_design_is_written_with_its_record(finished):
    workdir, _, _ = finished
    sources = sorted((workdir / "environments").glob("*.py"))
    assert len(sources) == 6 * STEPS
    for source in sources:
        record = json.loads(source.with_suffix(".json").read_text())
        assert {"skill", "document_id", "hint", "stage", "hint_returns", "windows", "reward",
                "regret"} <= set(record)  # fmt: skip
        if record["stage"] is None:
            assert "class " in source.read_text()
            assert len(record["windows"][0]) + record["faults"] >= 2


def test_the_same_command_after_the_end_trains_nothing_more(finished):
    workdir, _, shared = finished
    before = (workdir / "metrics.jsonl").read_bytes()
    run(workdir, **shared)
    assert (workdir / "metrics.jsonl").read_bytes() == before


def test_a_run_is_the_same_however_often_and_however_it_is_stopped(finished, tmp_path):
    whole, _, shared = finished
    settings = {"warm_start.path": whole, "checkpoint.every": 100, "checkpoint.grace_s": WALL}
    shared = {**shared, **settings}
    workdir = tmp_path / "stopped"
    for done, number, code in ((1, signal.SIGINT, INTERRUPTED), (2, signal.SIGTERM, PREEMPTED)):
        out, err = stopped(command(workdir, **shared), workdir, number, code)
        assert "the same command goes on" in out
        assert "Traceback" not in err, err
        assert [row["step"] for row in read_metrics(workdir)] == list(range(done + 1))
    process = start(command(workdir, **shared))
    wait_until(lambda: read_metrics(workdir)[-1]["step"] == STEPS, process)
    process.kill()
    process.communicate(timeout=30)
    run(workdir, **shared)
    assert_same_run(workdir, whole)


def test_a_preempted_warm_start_is_saved(finished, tmp_path):
    whole, _, shared = finished
    workdir = tmp_path / "warm"
    for part in ("rows", "tokenizer.model"):
        copy = shutil.copytree if (whole / "warm_start" / part).is_dir() else shutil.copyfile
        (workdir / "warm_start").mkdir(parents=True, exist_ok=True)
        copy(whole / "warm_start" / part, workdir / "warm_start" / part)
    patient = command(workdir, **shared, **{"checkpoint.grace_s": WALL})
    stopped(patient, workdir, signal.SIGTERM, PREEMPTED)
    assert [step.name for step in (workdir / "warm_start" / "checkpoints").glob("[0-9]*")] == ["1"]


def test_a_step_that_outlasts_the_grace_period_is_dropped(finished, tmp_path):
    whole, _, shared = finished
    shared = {**shared, "warm_start.path": whole, "checkpoint.grace_s": 0.01}
    _, err = stopped(
        command(tmp_path / "run", **shared), tmp_path / "run", signal.SIGTERM, PREEMPTED
    )
    assert "the step was dropped" in err
    assert not (tmp_path / "run" / "environments").exists()


def test_a_mode_that_only_looks_ends_with_the_signal(finished):
    workdir, _, shared = finished
    stopped(command(workdir, "--mode=eval", **shared), workdir, signal.SIGTERM, -signal.SIGTERM)


def test_environments_live_for_their_epoch_and_are_trained_after_the_delay(finished, tmp_path):
    whole, _, shared = finished
    workdir = tmp_path / "epochs"
    epochs = {"curriculum.regen_interval": 2, "designer.delay": 2, "sampler.warm_up": True}
    run(workdir, **{**shared, **epochs, "warm_start.path": whole})
    first, second, last = rows = read_metrics(workdir)[1:]
    for role in ("designer", "agent"):  # nothing is compiled after the warm-up
        assert len({row[f"sampler/{role}/programs"] for row in rows}) == 1
    assert first["designer/designs"] == 6 and "designer/designs" not in second
    assert last["designer/designs"] == 6  # the second epoch, flushed by the end of the run
    assert first["agent/episodes"] == 2 * second["agent/episodes"] > 0  # no hint arm any more
    assert second["designer/grad_norm"] >= 0 and last["designer/grad_norm"] >= 0
    records = accepted_records(workdir)
    assert {record["born"] for record in records} <= {0, 2} and records
    for record in records:
        assert len(record["windows"]) == (2 if record["born"] == 0 else 1)
        assert record["trained"]


OPTIONS = {
    "designer.reward": "learning_potential",
    "designer.guards": ("replay", "guesses", "partial_credit"),
    "designer.coverage_bonus": 0.1,
    "designer.repair_turns": 1,
    "designer.self_judge": True,
    "audit.enabled": True,
    "audit.source": "self",
    "hints.leak_check": True,
    "curriculum.difficulty_hints": True,
    "curriculum.regen_interval": 2,
    "designer.delay": 2,
    "agent.format_bonus": 0.1,
    "learner.drop_zero_variance": True,
    "eval.greedy": 0,
    "eval.episodes": 0,
}


@pytest.mark.soak
def test_all_options_of_the_designer_together_survive_a_stop(finished, tmp_path):
    whole, _, shared = finished
    shared = {**shared, **OPTIONS, "warm_start.path": whole, "checkpoint.grace_s": WALL}
    run(tmp_path / "whole", **shared)
    stopped(command(tmp_path / "stopped", **shared), tmp_path / "stopped", signal.SIGINT,
            INTERRUPTED)  # fmt: skip
    run(tmp_path / "stopped", **shared)
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    rows = read_metrics(tmp_path / "whole")[1:]
    assert undocumented({name for row in rows for name in row}) == set()
    records = [json.loads(f.read_text()) for f in (tmp_path / "whole/environments").glob("*.json")]
    shown = [record for record in records if record["first_stage"]]
    asked = [record for record in records if record["stage"] is None]
    assert asked and all(record["audit"] and record["judgement"] for record in asked)
    assert shown and all(record["repaired"] == 1 and record["trained"] for record in shown)
    assert {record["reward"] for record in shown} <= {-0.2, 0.0}
    trained = [name for row in rows for name in row if name.startswith("designer/return_slow/")]
    assert trained and all(0 <= row.get("agent/well_formed_fraction", 0) <= 1 for row in rows)


@pytest.mark.soak
def test_a_fixed_pool_with_a_frozen_designer_is_written_once(finished, tmp_path):
    whole, _, shared = finished
    workdir = tmp_path / "fixed"
    fixed = {"curriculum.fixed_pool": 3, "curriculum.num_envs": 3, "designer.train": False}
    run(workdir, **{**shared, **fixed, "steps": 2, "warm_start.path": whole})
    rows = read_metrics(workdir)[1:]
    assert all("designer/grad_norm" not in row for row in rows)
    assert [row["agent/episodes"] for row in rows] == [12, 12]
    assert not any("designer/designs" in row for row in rows)


@pytest.mark.soak
def test_a_folder_is_a_pool_without_a_designer(finished, tmp_path):
    """One run's environments are the next one's."""
    whole, _, shared = finished
    workdir, size = tmp_path / "folder", len(records_of(whole, None, "off_skill"))
    given = {"curriculum.source": "folder", "curriculum.folder": whole / "environments"}
    rest = {"curriculum.num_envs": 2, "steps": 2, "warm_start.path": whole, "eval.episodes": 0}
    printed = run(workdir, **{**shared, **given, **rest})
    assert f"{6 * STEPS - size} of {6 * STEPS} environments rejected:" in printed
    rows = read_metrics(workdir)[1:]
    assert [row["pool/size"] for row in rows] == [size, size]
    assert [row["pool/left"] for row in rows] == [size - 2, size - 4]
    assert [row["agent/episodes"] for row in rows] == [8, 8]  # with and without the hint
    assert not any(name.startswith(("sampler/designer", "designer/grad")) for name in rows[0])


def test_an_empty_folder_stops_a_run_before_its_warm_start(tmp_path):
    (tmp_path / "environments").mkdir()
    given = {"curriculum.source": "folder", "curriculum.folder": tmp_path / "environments"}
    done = subprocess.run(
        command(tmp_path / "run", **given), capture_output=True, text=True, timeout=WALL,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "at least curriculum.num_envs=6" in done.stderr
    assert not (tmp_path / "run" / "warm_start" / "checkpoints").exists()


@pytest.mark.soak
def test_adaptive_levels_rise_and_a_resumed_run_draws_alike(finished, tmp_path):
    whole, _, shared = finished
    given = {"curriculum.source": "adaptive", "warm_start.path": whole, "eval.episodes": 0,
             "eval.greedy": 0, "curriculum.adaptive.attempts": 2,
             "curriculum.adaptive.promote": 0.0}  # fmt: skip
    for name, steps in (("once", 3), ("resumed", 1), ("resumed", 3)):
        run(tmp_path / name, **{**shared, **given, "steps": steps})
    rows = read_metrics(tmp_path / "once")[1:]
    assert [row["pool/size"] for row in rows] == [16, 16, 16]
    assert [row["agent/episodes"] for row in rows] == [12, 12, 12]  # there is no hint
    assert rows[0]["adaptive/top_level"] == 0 < rows[-1]["adaptive/top_level"]
    assert comparable(read_metrics(tmp_path / "resumed")[1:]) == comparable(rows)


def test_eval_generate_and_play_work_on_a_finished_run(finished):
    workdir, _, shared = finished
    assert "eval/dev/greedy/all" in run(workdir, "--mode=eval", **shared)
    generated = run(workdir, "--mode=generate", "--count=6", **shared)
    assert generated.count("# ") >= 6 and "document" in generated
    accepted = next(
        file
        for file in sorted((workdir / "environments").glob("*.json"))
        if json.loads(file.read_text())["stage"] in (None, "degenerate")
    )
    played = run(workdir, "--mode=play", f"--env={accepted.with_suffix('.py')}", **shared)
    assert "without hint" in played and "with hint" in played and "assistant:" in played


def test_a_workdir_belongs_to_its_settings(finished):
    workdir, _, shared = finished
    changed = {**shared, "designer.reward": "regret"}
    done = subprocess.run(
        command(workdir, **changed), capture_output=True, text=True, timeout=WALL, check=False
    )
    assert done.returncode == 2
    assert "designer.reward='regret' (there 'blend')" in done.stderr


def test_modes_that_need_a_run_say_so(tmp_path):
    done = subprocess.run(
        command(tmp_path / "none", "--mode=eval"), capture_output=True, text=True, timeout=WALL,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "train first" in done.stderr
    assert not (tmp_path / "none").exists()


def test_two_processes_train_as_one(finished, tmp_path):
    """Each plays its share, in a sandbox of its own; all sums are rounded differently."""
    whole, _, shared = finished
    workdir, no_eval = tmp_path / "two", {"eval.episodes": 0, "eval.greedy": 0}
    settings = {**shared, **no_eval, "steps": 2, "warm_start.path": whole}
    with started(as_group(command(workdir, **settings), 2), tmp_path / "logs") as group:
        group.wait_for_step(workdir, 1, WALL)
        sandboxes = [descendants(process.pid) for process in group.processes]
        assert group.wait(WALL) == [0, 0], group.texts()
    assert all(sandboxes) and not set.intersection(*sandboxes)
    texts = group.texts()
    assert "self-play 2/2" in texts[0] and "self-play" not in texts[1]
    assert_alike(read_metrics(workdir), read_metrics(whole)[:3])
    for file in (workdir / "environments").glob("*.py"):
        assert file.read_bytes() == (whole / "environments" / file.name).read_bytes()


def accepted_records(workdir):
    return records_of(workdir, None)


@pytest.mark.soak
def test_two_processes_draw_drop_and_replay_a_folder_as_one(finished, tmp_path):
    whole, _, shared = finished
    settings = {
        **shared, "curriculum.source": "folder", "curriculum.folder": whole / "environments",
        "curriculum.num_envs": 4, "curriculum.lifecycle": True, "curriculum.lifecycle_plays": 2,
        "curriculum.replay_envs": 2, "agent.baseline": "moving", "steps": 3,
        "warm_start.path": whole,
    }  # fmt: skip
    run(tmp_path / "one", **settings)
    with started(as_group(command(tmp_path / "two", **settings), 2), tmp_path / "logs") as group:
        assert group.wait(WALL) == [0, 0], group.texts()
    two, one = (
        [{name: v for name, v in row.items() if v is not None} for row in read_metrics(workdir)]
        for workdir in (tmp_path / "two", tmp_path / "one")
    )
    assert one[-1]["pool/dropped"] > 0 and one[-1]["replay/environments"] == 2
    assert_alike(two, one)


def records_of(workdir, *stages):
    files = sorted((workdir / "environments").glob("*.json"))
    records = [json.loads(file.read_text()) for file in files]
    return [record for record in records if record["stage"] in stages]


def start(arguments):
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def stopped(arguments, workdir, number, code):
    """What a run printed that got a signal while its parts were built."""
    stamp = workdir / "sandbox.json"  # written first
    before = stamp.stat().st_mtime_ns if stamp.exists() else None
    process = start(arguments)
    wait_until(lambda: stamp.exists() and stamp.stat().st_mtime_ns != before, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=WALL)
    assert process.returncode == code, err[-2000:]
    return " ".join(out.split()), err


def wait_until(reached, process):
    deadline = time.monotonic() + WALL
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it could be stopped"
        if reached():
            return
        time.sleep(0.02)
    raise AssertionError("not in time")


def assert_same_run(workdir, whole):
    assert comparable(read_metrics(workdir)) == comparable(read_metrics(whole))
    names = [file.name for file in sorted((whole / "environments").iterdir())]
    assert [file.name for file in sorted((workdir / "environments").iterdir())] == names
    for name in names:
        same = (whole / "environments" / name).read_bytes()
        assert (workdir / "environments" / name).read_bytes() == same


def partial_saves(workdir):
    """Checkpoints that are being written, or were when their process was killed."""
    stages = (workdir / "checkpoints", workdir / "warm_start" / "checkpoints")
    found = set()
    for folder in (folder for stage in stages for folder in stage.glob("*tmp*")):
        with contextlib.suppress(FileNotFoundError):  # complete by now
            found.add((folder, folder.stat().st_ino))
    return found


@pytest.mark.soak
def test_kill_9_at_twenty_random_moments_changes_nothing(finished, tmp_path):
    """From nothing: rows, warm start, self-play. Every fourth kill waits for the next save."""
    whole, _, shared = finished
    begun = time.monotonic()
    run(whole, **shared)
    longest = 4 * (time.monotonic() - begun)  # of four starts: most kills come later than that
    workdir, rng, during_saves = tmp_path / "killed", random.Random(0), 0
    arguments = command(workdir, **shared, **{"warm_start.save_every": 4})
    for kill in range(20):
        before, process = partial_saves(workdir), start(arguments)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(0, longest))
        while kill % 4 == 3 and process.poll() is None and partial_saves(workdir) <= before:
            time.sleep(0.001)
        assert process.poll() in (None, 0)  # a resume that fails is no kill
        process.kill()
        process.communicate(timeout=30)
        saving = not partial_saves(workdir) <= before
        during_saves += saving
        print(f"kill {kill + 1}: {reached(workdir)}{', in a save' * saving}", flush=True)
    assert during_saves
    run(workdir, **shared)
    assert [row["step"] for row in read_metrics(workdir)] == list(range(STEPS + 1))
    assert_same_run(workdir, whole)


def reached(workdir):
    """How far a run has come, in words."""
    if rows := read_metrics(workdir):
        return f"self-play {rows[-1]['step']}"
    steps = (workdir / "warm_start" / "checkpoints").glob("[0-9]*")
    return f"warm start {max((int(step.name) for step in steps if step.name.isdigit()), default=0)}"
