"""Files of each dialect, as programs of the contract, in real sandbox processes."""

import re

import pytest

from sandbox_runner import BlockingPool, EnvError, validate
from spade_jax.curricula import GradedError, graded
from spade_jax.curricula.graded import _split_future
from tests.curricula.files import CONTRACT, CONTROLLER, GEM, OWN_BASE, RLVE


@pytest.fixture(scope="module")
def pool():
    with BlockingPool() as pool:
        yield pool


class Episode:
    """One episode of a source."""

    def __init__(self, pool, source, seed=3, max_turns=12):
        self.pool = pool
        (self.session,) = pool.open([source], max_turns=max_turns)
        assert not isinstance(self.session, EnvError), self.session
        (self.first,) = pool.reset([(self.session, seed)])

    def step(self, action):
        (result,) = self.pool.step([(self.session, action)])
        return result


def test_an_rlve_file_with_its_controller_passes_validation_and_can_be_won(pool):
    environment = graded("sum", RLVE + CONTROLLER)
    assert (environment.dialect, environment.limit) == ("rlve", None)
    (verdict,) = validate(pool, [environment.source()])
    assert verdict.accepted, (verdict.stage, verdict.reason)
    assert verdict.measurements["win_solution"] == 1.0 and verdict.shareable
    first = Episode(pool, environment.source()).first.text
    numbers = [int(digits) for digits in re.findall(r"\d+", first)]
    for answer, reward in ((sum(numbers), 1.0), (sum(numbers) + 1, 0.0), ("many", -1.0)):
        result = Episode(pool, environment.source()).step(rf"\boxed{{{answer}}}")
        assert (result.reward, result.terminated) == (reward, True)
    assert Episode(pool, environment.source()).step("no box").reward == -1.0


@pytest.mark.parametrize("level,count", [(0, 2), (1, 5), (4, 14)])
def test_levels_of_an_rlve_file_come_from_its_controller(pool, level, count):
    first = Episode(pool, graded("sum", RLVE + CONTROLLER).source(level)).first.text
    assert len(re.findall(r"\d+", first)) == count


def test_levels_beside_an_rlve_file_take_the_place_of_a_controller(pool):
    environment = graded("sum", RLVE, [{"count": 3}, [{"count": 4}, {"count": 5}]])
    assert environment.limit == 2
    seen = {
        len(re.findall(r"\d+", Episode(pool, environment.source(1), seed).first.text))
        for seed in range(8)
    }
    assert seen == {4, 5}


@pytest.mark.parametrize("package", ["...environment", "puzzles.base"])
def test_the_base_class_may_come_from_any_package(pool, package):
    text = RLVE.replace("from Gym.environment", f"from {package}")
    first = Episode(pool, graded("sum", text, [{"count": 3}]).source()).first.text
    assert first.startswith("Add up: [") and first.endswith("\nReply \\boxed{answer}.")


def test_an_rlve_file_may_bring_everything_itself(pool):
    environment = graded("double", OWN_BASE, [{"top": 500}])
    (verdict,) = validate(pool, [environment.source()])
    assert verdict.accepted, (verdict.stage, verdict.reason)
    episode = Episode(pool, environment.source())
    number = int(re.search(r"\d+", episode.first.text)[0])
    assert episode.step(rf"\boxed{{{2 * number}}}").reward == 1.0


def test_an_rlve_file_without_any_rule_of_difficulty_is_refused():
    with pytest.raises(GradedError, match="neither a class with get_parameter_list"):
        graded("sum", RLVE)


def test_parameters_that_give_no_problem_are_the_environment_s_fault(pool):
    result = Episode(pool, graded("sum", RLVE, [{"count": 1}]).source()).first
    assert isinstance(result, EnvError) and "no problem of level 0" in result.detail


def test_a_gem_file_passes_validation_and_can_be_won(pool):
    environment = graded("guess", GEM)
    assert (environment.dialect, environment.limit) == ("gem", 10)
    (verdict,) = validate(pool, [environment.source()])
    assert verdict.accepted, (verdict.stage, verdict.reason)
    episode = Episode(pool, environment.source())
    assert episode.first.text == "A number from 1 to 20, 12 turns. Guess!"
    low, high, result = 1, 20, None
    while result is None or not result.terminated:
        guess = (low + high) // 2
        result = episode.step(rf"\boxed{{{guess}}}")
        low, high = (guess + 1, high) if result.observation == "higher" else (low, guess - 1)
    assert result.reward == 1.0
    assert Episode(pool, environment.source()).step("seven").reward == pytest.approx(-0.1)


def test_levels_of_a_gem_file_are_its_complexity_or_the_arguments_beside_it(pool):
    assert "to 80," in Episode(pool, graded("guess", GEM).source(3)).first.text
    beside = graded("guess", GEM, [{"complexity": 2, "max_turns": 5}])
    assert Episode(pool, beside.source(0)).first.text == "A number from 1 to 40, 5 turns. Guess!"


def test_levels_of_a_file_in_the_contract_are_its_constants(pool):
    plain = graded("copy", CONTRACT)
    assert (plain.dialect, plain.limit, plain.source()) == ("contract", None, CONTRACT)
    assert len(re.findall(r"\d+", Episode(pool, plain.source(4)).first.text)) == 7
    assert "N = 9\n" in graded("copy", CONTRACT, [{"N": 2}, {"N": 9}]).source(1)
    assert graded("copy", CONTRACT.replace("N = 3", "M = 3")).limit == 1


def test_a_level_is_set_where_the_constant_is_a_number():
    text = CONTRACT.replace("    N = 3\n", "    N = START = 3\n    N = 3\n")
    assert text.count("N = ") == 2
    assert graded("copy", text).source(4) == text.replace("    N = 3\n", "    N = 7\n")


@pytest.mark.parametrize(
    "text,levels,said",
    [
        (CONTRACT, [{"M": 2}], 'name M, but no line reads "M = ..."'),
        (CONTRACT, [[{"N": 2}, {"N": 3}]], "one set of constants each"),
        (RLVE, [], "list of parameter sets"),
        (RLVE, [3], "list of parameter sets"),
        (GEM, {"count": 3}, "list of parameter sets"),
    ],
)
def test_levels_that_cannot_be_meant_are_refused(text, levels, said):
    with pytest.raises(GradedError, match=re.escape(said)):
        graded("x", text, levels)


def test_what_has_no_stand_in_says_so(pool):
    text = GEM.replace("import gem\n", "import gem.multiagent\n")
    (session,) = pool.open([graded("x", text).source()])
    assert isinstance(session, EnvError) and "gem.multiagent has no stand-in" in session.detail
    text = RLVE + CONTROLLER + "\nzero = torch.zeros(3)\n"
    (session,) = pool.open([graded("x", text).source()])
    assert isinstance(session, EnvError) and "zeros" in session.detail


def test_a_text_that_is_no_python_is_left_to_the_sandbox(pool):
    (verdict,) = validate(pool, [graded("x", "class XEnv(").source()])
    assert verdict.stage == "parse"


@pytest.mark.parametrize(
    ("text", "head", "body"),
    [
        ("x = 1\n", "", "x = 1\n"),
        ("from __future__ import division\nx = 1", "from __future__ import division", "x = 1"),
        (
            '"é"; from __future__ import annotations; X = """\n1\n"""',
            '"é"; from __future__ import annotations', 'X = """\n1\n"""',
        ),
        ("from __future__ import (\nannotations)  # new\nx", None, "# new\nx"),
    ],
)  # fmt: skip
def test_imports_from_the_future_are_parted_from_what_follows_on_their_line(text, head, body):
    found = _split_future(text)
    assert found[1] == body and (head is None or found[0] == head)
    for part in found:
        compile(part, "", "exec")
