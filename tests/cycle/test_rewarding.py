"""When a design is paid, and what, against numbers worked out by hand."""

from types import SimpleNamespace

import msgspec
import pytest

from configs import base
from spade_jax.cycle import due_designs, note_novelty, pay, raw_reward
from spade_jax.designer import Environment, Record
from spade_jax.rl import RewardSettings, SkillAverages
from spade_jax.rollout import Trajectory
from spade_jax.state import Records


def design(name="d", hint=(), *windows, born=0, skill="s", **more):
    trajectory = Trajectory()
    trajectory.append_sampled([5], [-1.0], 0)
    return Environment(
        name, skill, None, "reply", born, trajectory, source=f"class {name}Env: pass",
        hint_returns=list(hint), windows=[list(window) for window in windows], **more,
    )  # fmt: skip


def rooms(**designer):
    config = base.get_config()
    config.designer.update(designer)
    settings = RewardSettings(
        matched_timing=config.designer.matched_timing, regret_floor=config.designer.regret_floor
    )
    return SimpleNamespace(config=config, reward_settings=settings)


def due_at(designs, step, **changes):
    config = base.get_config()
    config.steps, config.curriculum.regen_interval, config.designer.delay = 10, 4, 3
    config.update(changes)
    return [made.name for made in due_designs(designs, step, config)]


def test_a_design_is_due_when_its_plays_of_the_delay_are_in():
    designs = [design("a", born=0), design("b", born=1)]
    assert [due_at(designs, step) for step in range(4)] == [[], [], ["a"], ["a", "b"]]
    assert due_at([design("c", born=4, trained=True)], 8) == []


def test_a_delay_of_one_step_pays_at_birth_and_of_the_interval_at_its_end():
    made = [design(born=4)]
    assert due_at(made, 4, designer={"delay": 1}) == ["d"]
    assert [bool(due_at(made, step, designer={"delay": 4})) for step in (6, 7)] == [False, True]


def test_rejected_and_repaired_designs_are_due_with_the_accepted_ones():
    rejected, mended = design("r", stage="leak"), design("m", first_stage="leak", repaired=1)
    made = [rejected, design("a"), mended]
    assert [due_at(made, step, designer={"delay": 3}) for step in range(3)] == [
        [], [], ["r", "a", "m"]
    ]  # fmt: skip


def test_the_last_step_pays_what_is_left():
    assert due_at([design("a", born=8), design("b", born=9)], 9) == ["a", "b"]


def paid(made, **designer):
    pay(rooms(**designer), [made], {})
    assert made.trained
    return made.reward


def test_a_reward_is_computed_from_all_plays_of_the_window():
    made = design("d", [1, 1, 1, 0], [0, 0])
    assert paid(made, reward="regret") == pytest.approx(0.75)
    made.windows += [[1, 0], [1, 1]]  # w 0.5
    assert paid(made, reward="plateau") == 1.0
    assert paid(made, reward="regret", matched_timing=False) == pytest.approx(0.25)
    assert paid(made, reward="micro_lp") == pytest.approx(1.0)  # late 1, early 0
    # gap 0.75 clipped to 1, plateau(0.5) = 1
    assert paid(made, reward="blend") == pytest.approx(0.4 + 0.6)


def test_a_blend_below_zero_leaves_the_design_out():
    made = design("d", [0, 0], [1, 1])
    assert paid(made, reward="blend", regret_floor=False) is None


@pytest.mark.parametrize(
    "changes,trained,reward",
    [
        ({"stage": "leak"}, False, None),
        ({"stage": "leak"}, True, -0.2),
        ({"stage": "off_skill"}, False, None),
        ({"stage": "off_skill"}, True, 0.0),
        ({"stage": "degenerate"}, False, 0.0),
        ({"faults": 1}, False, -0.5),
        ({"hint_returns": []}, True, None),  # no valid play of an arm
        ({"trajectory": Trajectory()}, True, None),  # its prompt did not fit
        ({"first_stage": "leak", "repaired": 1}, False, None),  # mended, but not by this answer
        ({"first_stage": "leak", "repaired": 1}, True, -0.2),
        ({"first_stage": "off_skill", "stage": "leak"}, True, 0.0),
    ],
)
def test_what_is_not_paid_by_its_plays(changes, trained, reward):
    made = msgspec.structs.replace(design("d", [1, 1], [0, 0]), **changes)
    assert paid(made, reward="regret", train_invalid=trained) == reward


def test_the_averages_are_those_with_the_plays_of_all_due_designs_of_the_skill():
    one, two = design("a", [1], [1, 1], [0, 0]), design("b", [1], [1, 1])
    other, faulty = design("c", [1], [0], skill="t"), design("f", [1], [1], faults=1)
    before = {"s": SkillAverages(0.5, 0.25)}
    after = pay(rooms(reward="learning_potential"), [one, two, other, faulty], before)
    # the new value of s: 4 wins of 6 plays
    slow = 0.85 * 2 / 3 + 0.15 * 0.25
    assert after["s"].slow == pytest.approx(slow)
    assert after["s"].fast == pytest.approx(0.98 * 2 / 3 + 0.02 * 0.5)
    assert one.reward == pytest.approx(abs(0.5 - slow)) and two.reward == pytest.approx(1 - slow)
    assert after["t"] == SkillAverages(0.0, 0.0) and other.reward == 0.0  # its first window
    assert before == {"s": SkillAverages(0.5, 0.25)} and faulty.reward == -0.5


def test_repetition_costs_and_novelty_pays():
    def known(knob):
        return Record("", "s", 0.5, 0.1, 0, knob=knob, family="f", length=20)

    made = design("d", [1, 1], [0, 0], knob=8, family="f")
    note_novelty([made], [known(8), known(9), known(40), known(90)])
    assert (made.novelty, made.repetition) == (0.5, 0.25)  # 9 is in the bin, but not within 10%
    assert paid(made, reward="regret") == 1.0
    assert paid(made, reward="regret", coverage_bonus=0.2) == pytest.approx(1.1)
    assert paid(made, reward="regret", repeat_cost=0.2) == pytest.approx(0.95)


def test_novelty_is_noted_for_accepted_designs_only():
    accepted, rejected = design("a"), design("r", stage="leak")
    note_novelty([accepted, rejected], ())
    assert (accepted.novelty, accepted.repetition) == (1.0, 0.0)
    assert (rejected.novelty, rejected.repetition) == (None, None)


def test_what_rewards_depend_on_survives_a_checkpoint():
    made = design("d", [1, 0], [0], [1], first_stage="leak", repaired=2, novelty=0.25,
                  behaviour="ab12")  # fmt: skip
    records = Records(designs=[made], averages={"s": SkillAverages(0.5, 0.25)})
    assert msgspec.json.decode(msgspec.json.encode(records), type=Records) == records


def test_rewards_need_nothing_but_what_they_are_given():
    made = design("d", [1], [0])
    settings = rooms(reward="learning_potential")
    first = raw_reward(settings, made, {"s": SkillAverages(0, 0.4)})
    assert first == raw_reward(settings, made, {"s": SkillAverages(0, 0.4)}) == 0.4
