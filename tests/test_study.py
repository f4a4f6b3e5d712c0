"""The study: who shares what, how its jobs run, and the arithmetic of its table."""

import itertools
import json
import sys

import numpy as np
import pytest

from configs import tiny
from launch.sweeps import STUDY, Sweep
from spade_jax import study
from spade_jax.config import lookup

ARMS = {"full": {}, "frozen": {"designer.train": False}}
SWEEP = Sweep("configs/tiny.py", ARMS, (0, 1, 2), share_warm_start=True)


def flags(command):
    return dict(word.removeprefix("--").split("=", 1) for word in command if word.startswith("--"))


def test_a_seed_s_arms_share_its_warm_start_and_differ_in_their_overrides_alone(tmp_path):
    made = study.jobs(SWEEP, tmp_path, steps=7)
    assert [job.after for job in made] == [None] * 3 + [made[i].name for i in (0, 0, 1, 1, 2, 2)]
    warm, jobs = ([flags(job.command) for job in part] for part in (made[:3], made[3:]))
    assert len({job["workdir"] for job in jobs}) == 6
    for seed, (full, frozen) in enumerate(zip(jobs[::2], jobs[1::2], strict=True)):
        assert full["config.warm_start.path"] == warm[seed]["workdir"]
        assert full["config.seed"] == warm[seed]["config.seed"] == str(seed)
        assert full["config.steps"] == "7"
        assert frozen.pop("config.designer.train") == "False"
        del full["workdir"], frozen["workdir"]
        assert full == frozen


def test_the_published_study_changes_known_settings_only():
    for overrides in (*STUDY.arms.values(), STUDY.common):
        for key in overrides:
            lookup(tiny.get_config(), key)
    assert len(STUDY.seeds) >= 3 and len(STUDY.arms) == 4


def write_run(root, arm, seed, held_out, last):
    """A run of 12 iterations whose first two would spoil the mean over the last ten."""
    folder = study.arm_folder(root, arm, seed)
    folder.mkdir(parents=True)
    before, after = (
        {f"eval/dev/{key}": value for _, key in study.HELD_OUT} for value in held_out
    )
    rows = [{"step": 0, **before}]
    for step in range(1, 13):
        value = 99.0 if step <= 2 else last
        rows.append({"step": step, **{key: value for _, key in study.TRAINING}})
    rows[-1] |= after
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(lines)


def test_table_shows_means_gains_and_leads_with_intervals_over_seeds(tmp_path):
    for seed, (full, frozen) in enumerate([(0.5, 0.4), (0.6, 0.3), (0.7, 0.2)]):
        write_run(tmp_path, "full", seed, (0.1, full), 0.8)
        write_run(tmp_path, "frozen", seed, (0.1, frozen), 0.2 + 0.1 * seed)
    made = study.table(SWEEP, tmp_path, "dev")
    columns = [list(column.cells) for column in made.columns]
    row = {name: tuple(cells) for name, *cells in zip(*columns, strict=True)}
    spread = 4.302653 * 0.1 / np.sqrt(3)  # t(0.975, 2) times the standard error of 0.1 steps
    assert row["sampled all"] == (
        "0.100 ±0.000", f"0.600 ±{spread:.3f}", f"0.300 ±{spread:.3f}"
    )  # fmt: skip
    assert row["  gain over its warm start"][1:] == (
        f"0.500 ±{spread:.3f}", f"0.200 ±{spread:.3f}"
    )  # fmt: skip
    assert row["  lead of full"] == ("", "", f"0.300 ±{2 * spread:.3f}")
    assert row["regret, last 10"] == ("", "0.800 ±0.000", f"0.300 ±{spread:.3f}")


def test_a_measure_that_an_arm_lacks_is_a_dash(tmp_path):
    for arm, seed in itertools.product(SWEEP.arms, SWEEP.seeds):
        write_run(tmp_path, arm, seed, (0.1, 0.2), 0.5)
    for seed in SWEEP.seeds:
        path = study.arm_folder(tmp_path, "frozen", seed) / "metrics.jsonl"
        path.write_text(path.read_text().replace("designer/knob_median", "designer/other"))
    made = study.table(SWEEP, tmp_path, "dev")
    cells = next(c for c in zip(*(col.cells for col in made.columns), strict=True)
                 if c[0] == "knob median, last 10")
    assert cells == ("knob median, last 10", "", "0.500 ±0.000", "-")


def test_every_arm_is_scored_on_the_test_set_and_no_warm_start_is(tmp_path):
    made, scored = study.jobs(SWEEP, tmp_path, 7), study.scoring_jobs(SWEEP, tmp_path, 7)
    assert [job.command[-2:] for job in scored] == [("--mode=eval", "--split=test")] * 6
    assert [job.command[:-2] for job in scored] == [job.command for job in made[3:]]
    assert len({job.name for job in (*made, *scored)}) == 15


def test_a_failing_run_stops_the_study_and_shows_its_output(tmp_path):
    fails = (sys.executable, "-c", "import sys; print('why it failed'); sys.exit(3)")
    later = (sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(study.StudyError, match="why it failed"):
        study.run_all([study.Job("a", fails), study.Job("b", later)], tmp_path, parallel=1)
    assert not (tmp_path / "ran").exists()
