import io
import itertools

import numpy as np
import pytest
from rich.console import Console

from spade_jax.progress import Progress, format_value, print_table


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def console(terminal=False, width=120):
    return Console(file=io.StringIO(), force_terminal=terminal, width=width)


def text(target):
    return target.file.getvalue()


def test_phases_are_timed_under_their_names():
    clock = Clock()
    with Progress(2, console=console(), clock=clock) as progress:
        for seconds in (2.0, 1.0):
            with progress.phase("rollout"):
                clock.now += seconds
        with progress.phase("update"):
            clock.now += 0.5
        clock.now += 4.0
        assert progress.times() == {"time/rollout": 3.0, "time/update": 0.5, "time/step": 7.5}


def test_a_step_starts_new_times():
    clock = Clock()
    progress = Progress(2, console=console(), clock=clock)
    with progress.phase("rollout"):
        clock.now += 1.0
    progress.step(1, {})
    clock.now += 0.25
    assert progress.times() == {"time/step": 0.25}


def test_an_inner_phase_counts_in_the_outer_one_too():
    clock = Clock()
    progress = Progress(1, console=console(), clock=clock)
    with progress.phase("design"):
        clock.now += 1.0
        with progress.phase("validate"):
            clock.now += 2.0
    assert progress.times() == {"time/design": 3.0, "time/validate": 2.0, "time/step": 3.0}


def test_a_failing_phase_is_timed_and_its_error_passes():
    clock = Clock()
    progress = Progress(1, console=console(), clock=clock)
    with pytest.raises(ValueError, match="broken"), progress.phase("rollout"):
        clock.now += 1.0
        raise ValueError("broken")
    assert progress.times()["time/rollout"] == 1.0


def test_without_a_terminal_each_step_is_one_plain_line():
    clock, target = Clock(), console(width=40)
    with Progress(12, console=target, start=2, clock=clock) as progress:
        with progress.phase("rollout"):
            clock.now += 8.04
        progress.step(3, {"win": 0.5317, "regret": 0.12, "[skill]": "logic", "envs": 24})
        progress.step(4, {})
    assert text(target) == (
        "step 3/12  8.0 s (rollout 8.0)  win 0.532  regret 0.120  [skill] logic  envs 24\n"
        "step 4/12  0.0 s\n"
    )


def test_only_the_highlights_that_exist_are_shown_in_their_order_and_by_their_short_names():
    target = console()
    names = {"agent/win_rate": "win", "absent": "none", "designer/regret": "regret"}
    progress = Progress(2, "self-play", highlights=names, console=target)
    progress.step(1, {"designer/regret": 0.1, "other": 3, "agent/win_rate": 0.5})
    assert text(target).startswith("self-play 1/2 ")
    assert text(target).endswith(" s  win 0.500  regret 0.100\n")


def test_without_highlights_a_line_stays_short():
    target = console()
    Progress(2, console=target).step(1, {f"m{i}": i for i in range(40)})
    assert text(target).endswith("m4 4  m5 5\n")


def test_with_a_terminal_the_bar_shows_step_phase_and_highlights():
    clock, target = Clock(), console(terminal=True)
    with Progress(12, console=target, start=2, clock=clock) as progress:
        with progress.phase("rollout"):
            clock.now += 1.25
        progress.step(3, {"win": 0.5})
        progress.print("a [note] of 7")
    shown = text(target)
    assert "3/12" in shown
    assert "step: rollout" in shown
    assert "1.2 s (rollout 1.2)  win 0.500" in shown
    assert "a [note] of 7" in shown


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_gives_the_terminal_back(error):
    target = console(terminal=True)
    with pytest.raises(error), Progress(12, console=target) as progress, progress.phase("rollout"):
        raise error
    shown = text(target)
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l") >= 0  # cursor shown after hidden
    with Progress(3, console=target):  # a second live display is refused while one is running
        pass


def test_steps_do_not_depend_on_the_clock():
    outputs = []
    for speed in (1.0, 1000.0):
        target, ticks = console(), itertools.count(step=speed)
        progress = Progress(2, console=target, clock=lambda ticks=ticks: next(ticks))
        progress.step(1, {"win": 0.5})
        outputs.append(text(target).split(" s ")[1])
    assert outputs[0] == outputs[1]


def test_a_table_has_every_column_and_a_dash_for_what_is_missing():
    target = console(width=80)
    print_table([{"arm": "full", "hard": 0.547, "n": 768}, {"arm": "[fixed]", "all": 0.59}],
                "Held-out", target)
    lines = text(target).splitlines()
    assert lines[0].strip() == "Held-out"
    cells = [[cell.strip() for cell in line.strip("│┃ ").replace("┃", "│").split("│")]
             for line in lines if "│" in line or "┃" in line]
    assert cells == [["arm", "hard", "n", "all"], ["full", "0.547", "768", "-"],
                     ["[fixed]", "-", "-", "0.590"]]


@pytest.mark.parametrize(("value", "shown"), [
    (0.0, "0.000"), (0.12345, "0.123"), (-12.3456, "-12.346"), (1234.56, "1234.6"), (7, "7"),
    (3e-4, "3.00e-04"), (2.5e7, "2.50e+07"), (True, "True"), ("text", "text"), (None, "-"),
    (float("nan"), "nan"), (float("-inf"), "-inf"), (np.float32(0.25), "0.250"), (np.int64(3), "3"),
])
def test_values_are_shown_briefly(value, shown):
    assert format_value(value) == shown
