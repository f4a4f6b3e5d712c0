"""Sessions: batches, sharing, budgets, and what a hostile program cannot do to others."""

import os
import signal
import threading
import time

import pytest

from sandbox_runner import (
    BlockingPool,
    EnvError,
    Limits,
    Observation,
    RunnerError,
    Session,
    StepResult,
)
from tests.sandbox_runner.processes import below

HOSTILE = {
    "infinite_loop": "limits",
    "memory_hog": "limits",
    "huge_print": "limits",
    "slow_regex": "limits",
    "sleep_forever": "limits",
    "sys_exit": "robustness",
    "os_exit": "robustness",
    "segfault": "robustness",
    "garbage_on_fd": "robustness",
    "huge_frame": "robustness",
    "huge_reward": "contract",
    "lone_surrogate": "contract",
}
ACTIONS = [rf"\boxed{{{guess}}}" for guess in (50, 3, 97)]


def transcript(pool, session, seed, actions=ACTIONS):
    return [*pool.reset([(session, seed)]), *(pool.step([(session, a)])[0] for a in actions)]


@pytest.fixture
def guess(program):
    return program("sound/guess_number")


@pytest.fixture
def session(pool, guess):
    (opened,) = pool.open([guess])
    yield opened
    pool.close([opened])


def test_results_come_in_the_order_of_the_batch(pool, guess, program):
    sources = [guess, program("unsound/does_not_parse"), program("sound/numpy_grid")]
    first, broken, last = pool.open(sources)
    assert isinstance(broken, EnvError) and broken.stage == "parse"
    texts = [o.text for o in pool.reset([(last, 1), (first, 1)])]
    assert "Lights" in texts[0] and "integer" in texts[1]
    pool.close([first, last])


def test_a_session_can_be_reset_many_times(pool, session):
    assert transcript(pool, session, 5) == transcript(pool, session, 5)


def test_the_solution_belongs_to_the_present_episode(pool, session):
    pool.reset([(session, 5)])
    (answer,) = pool.solution([session])
    (result,) = pool.step([(session, rf"\boxed{{{answer}}}")])
    assert (result.reward, result.terminated) == (1.0, True)


def test_an_environment_without_a_solution_gives_none(pool, program):
    (session,) = pool.open([program("sound/reset_returns_text")])
    pool.reset([(session, 1)])
    assert pool.solution([session]) == [None]
    pool.close([session])


def test_math_verify_works_in_a_child(pool, program):
    (session,) = pool.open([program("sound/math_answer")])
    pool.reset([(session, 1)])
    (answer,) = pool.solution([session])
    (result,) = pool.step([(session, rf"\boxed{{\frac{{{float(answer) * 8:.0f}}}{{8}}}}")])
    assert result.reward == 1.0
    pool.close([session])


def test_the_turn_budget_truncates(pool, program):
    (session,) = pool.open([program("unsound/never_ends")], max_turns=2)
    *_, second_last, last = transcript(pool, session, 1, [r"\boxed{1}"] * 2)
    assert (second_last.truncated, last.truncated) == (False, True)
    with pytest.raises(RunnerError, match="must be reset"):
        pool.step([(session, "x")])
    pool.close([session])


def test_a_failed_step_answers_the_same_until_reset(pool, program):
    (session,) = pool.open([program("unsound/crashes_on_text")])
    pool.reset([(session, 1)])
    (error,) = pool.step([(session, "no box")])
    assert error.stage == "robustness" and "line 21" in error.detail
    assert pool.step([(session, r"\boxed{5}")]) == [error]
    assert isinstance(transcript(pool, session, 1, [r"\boxed{5}"])[-1], StepResult)
    pool.close([session])


def test_every_hostile_program_ends_only_itself(pool, guess, program):
    alone = pool.open([guess])[0]
    expected = transcript(pool, alone, 11)
    pool.close([alone])
    sources = [guess, *(program(f"hostile/{name}") for name in HOSTILE), guess]
    sessions = pool.open(sources)
    seen = [[] for _ in sessions]
    for results, result in zip(seen, pool.reset([(s, 11) for s in sessions]), strict=True):
        results.append(result)
    for action in ACTIONS:
        batch = pool.step([(session, action) for session in sessions])
        for results, result in zip(seen, batch, strict=True):
            results.append(result)
    assert seen[0] == seen[-1] == expected
    stages = {name: results[1].stage for name, results in zip(HOSTILE, seen[1:-1], strict=True)}
    assert stages == HOSTILE
    pool.close(sessions)


def test_a_program_that_hangs_while_loading_is_over_its_limit(pool, program):
    (error,) = pool.open([program("hostile/load_loop")])
    assert isinstance(error, EnvError) and error.stage == "limits"


def test_threads_are_bounded(pool, program):
    (session,) = pool.open([program("hostile/thread_leak")])
    pool.reset([(session, 1)])
    (result,) = pool.step([(session, "x")])
    assert int(result.observation.split()[0]) < 100
    pool.close([session])


SHARED_RANDOM = """
class DriftEnv:
    def reset(self, seed=None):
        random.seed(seed)
        np.random.seed(seed)
        return "go"
    def step(self, action):
        return f"{random.random()} {np.random.rand()} {random.gauss(0, 1)}", 0.0, False, False, {}
"""


def test_sessions_of_a_shared_child_play_as_in_processes_of_their_own(pool):
    seeds = [1, 2, 3]
    alone = pool.open([SHARED_RANDOM] * 3)
    shared = pool.open([SHARED_RANDOM] * 3, shareable=[True] * 3)
    played = []
    for sessions in (alone, shared):
        rows = [pool.reset(list(zip(sessions, seeds, strict=True)))]
        rows += [pool.step([(s, "x") for s in sessions]) for _ in range(4)]
        played.append(rows)
    assert played[0] == played[1]
    assert len(set(played[0][1])) == 3
    pool.close([*alone, *shared])


def test_shareable_sessions_live_in_one_process(pool, guess):
    source = guess.replace('"Correct."', "str(__import__('os').getpid())")
    sessions = pool.open([source] * 4, shareable=[True, True, False, False])
    pool.reset([(session, 1) for session in sessions])
    answers = pool.solution(sessions)
    actions = [(s, rf"\boxed{{{a}}}") for s, a in zip(sessions, answers, strict=True)]
    pids = [result.observation for result in pool.step(actions)]
    assert pids[0] == pids[1]
    assert len(set(pids)) == 3
    pool.close(sessions[:1])
    assert isinstance(pool.reset([(sessions[1], 2)])[0], Observation)
    pool.close(sessions)


def test_what_kills_a_shared_child_is_reported_to_all_its_sessions(pool, program):
    source = program("hostile/os_exit")
    sessions = pool.open([source] * 2, shareable=[True] * 2)
    pool.reset([(session, 1) for session in sessions])
    errors = pool.step([(session, "x") for session in sessions])
    assert [error.stage for error in errors] == ["robustness"] * 2
    (fresh,) = pool.open([source], shareable=[True])
    assert isinstance(pool.reset([(fresh, 1)])[0], Observation)
    pool.close([*sessions, fresh])


def test_only_the_standard_library_numpy_and_math_verify_can_be_imported(pool, guess):
    imports = ("import msgspec", "import sandbox_runner.pool", "import sqlite3, numpy.linalg")
    no, nor, yes = pool.open([f"{line}\n{guess}" for line in imports])
    assert [no.stage, nor.stage] == ["load", "load"]
    assert isinstance(yes, Session)
    pool.close([yes])


def test_misuse_is_the_callers_fault(pool, guess, session):
    with pytest.raises(RunnerError, match="must be reset"):
        pool.step([(session, "x")])
    with pytest.raises(RunnerError, match="twice"):
        pool.reset([(session, 1), (session, 2)])
    with pytest.raises(RunnerError, match="not open"):
        pool.reset([(Session(10**6), 1)])
    pool.reset([(session, 1)])
    with pytest.raises(RunnerError, match="cannot be sent"):
        pool.step([(session, "\ud800")])
    for action in (None, 5, b"x"):
        with pytest.raises(RunnerError, match="is not a str"):
            pool.step([(session, action)])
    for seed in (1.5, "1", True, 1 << 70):
        with pytest.raises(RunnerError, match="seed"):
            pool.reset([(session, seed)])
    assert isinstance(pool.step([(session, "fine")])[0], StepResult)


@pytest.mark.parametrize(
    "arguments", [{"max_turns": 0}, {"max_turns": 1 << 70}, {"shareable": [True]}]
)
def test_wrong_arguments_start_nobody(guess, arguments):
    with BlockingPool(Limits(max_children=2)) as small:
        with pytest.raises(RunnerError):
            small.open([guess] * 2, **arguments)
        with pytest.raises(RunnerError, match="not a str"):
            small.open([guess, 7])
        small.close(small.open([guess] * 2))


def test_a_pool_that_was_shut_down_says_so_and_starts_nothing(guess):
    pool = BlockingPool()
    pool.shut_down()
    pool.shut_down()
    for misuse in (lambda: pool.open([guess]), pool.layers):
        with pytest.raises(RunnerError, match="closed"):
            misuse()
    assert not set(pool.keeper_pids()) & set(below(os.getpid()))


@pytest.fixture
def restored_interrupts():
    """Ctrl-C as in a plain Python; a process of a test runner may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def step(pool, session, action):
    return pool.step([(session, action)])


def step_in_two(pool, session, action):
    (batch,) = pool.wait([pool.begin_step(session, action)])
    return batch.result()


@pytest.mark.parametrize("step", [step, step_in_two])
def test_an_interrupt_leaves_a_pool_that_can_go_on(pool, restored_interrupts, step):
    (session,) = pool.open([CHATTY], max_turns=10**9)
    pool.reset([(session, 1)])
    for n in range(30):
        timer = threading.Timer(0.0002 * n, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            for _ in range(100_000):
                step(pool, session, "x" * 5000)
            raise AssertionError("nobody interrupted")
        except KeyboardInterrupt:
            pass
        timer.join()
        while True:  # what was on its way is taken in
            try:
                assert step(pool, session, "on")[0].observation.startswith("2y")
                break
            except RunnerError as error:
                assert "has not answered" in str(error)
                pool.solution([])
                pool._sessions.exchange.turn(0.01)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    pool.close([session])


def test_what_was_begun_is_answered_one_by_one(pool, guess, program):
    quick, slow = pool.open([guess, program("hostile/infinite_loop")])
    pool.wait(begun := [pool.begin_reset(quick, 1), pool.begin_reset(slow, 1)])
    while not all(batch.done for batch in begun):
        pool.wait([batch for batch in begun if not batch.done])
    assert all(isinstance(batch.result()[0], Observation) for batch in begun)
    hanging = pool.begin_step(slow, ACTIONS[0])
    for action in ACTIONS:
        step = pool.begin_step(quick, action)
        assert pool.wait([hanging, step]) == [step]
        assert isinstance(step.result()[0], StepResult)
    with pytest.raises(RunnerError, match="has not answered"):
        pool.begin_step(slow, ACTIONS[0])
    assert pool.wait([hanging]) == [hanging]
    assert hanging.result()[0].stage == "limits"
    assert pool.wait([]) == []
    pool.close([quick, slow])


@pytest.mark.parametrize("name", ["infinite_loop", "sleep_forever"])
def test_a_deadline_holds_for_a_caller_who_only_looks_in_at_times(pool, program, name):
    (session,) = pool.open([program(f"hostile/{name}")])
    pool.reset([(session, 1)])
    hanging, looks = pool.begin_step(session, ACTIONS[0]), 0
    while not pool.wait([hanging], 0.0):
        time.sleep(0.2)  # what the caller computes
        looks += 1
    assert 2 <= looks < 50
    assert hanging.result()[0].stage == "limits"
    pool.close([session])


def test_the_number_of_children_is_bounded(guess):
    with BlockingPool(Limits(max_children=2)) as small:
        with pytest.raises(RunnerError, match="max_children"):
            small.open([guess] * 3)
        small.close(small.open([guess] * 2))
        assert all(isinstance(s, Session) for s in small.open([guess] * 2))


def test_a_dead_zygote_is_the_runners_fault_and_is_replaced(guess):
    with BlockingPool() as fresh:
        (session,) = fresh.open([guess])
        fresh.reset([(session, 1)])
        os.kill(fresh.keeper_pids()[0], signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        with pytest.raises(RunnerError, match="zygote"):
            while time.monotonic() < deadline:  # its children follow it within milliseconds
                fresh.reset([(session, 1)])
        (again,) = fresh.open([guess])
        assert isinstance(fresh.reset([(again, 1)])[0], Observation)


CHATTY = """
class ChattyEnv:
    def reset(self, seed=None):
        return "x"
    def step(self, action):
        return str(len(action)) + "y" * 60_000, 0.0, False, False, {}
"""


def test_more_than_the_sockets_hold_goes_both_ways(pool):
    sessions = pool.open([CHATTY] * 20, shareable=[True] * 20)
    pool.reset([(session, 1) for session in sessions])
    results = pool.step([(session, "a" * 300_000) for session in sessions])
    assert {result.observation[:7] for result in results} == {"300000y"}
    pool.close(sessions)


def test_relative_paths_lead_nowhere(pool):
    source = CHATTY.replace('return "x"', 'return open("left_behind.txt").name')
    (session,) = pool.open([source])
    (error,) = pool.reset([(session, 1)])
    assert isinstance(error, EnvError) and "FileNotFoundError" in error.detail
    pool.close([session])


HOARD = """
class HoardEnv:
    def reset(self, seed=None):
        self.kept = b""
        return "empty"
    def step(self, action):
        self.kept = b"x" * (int(action) << 20)
        return f"{len(self.kept) >> 20} MiB", 0.0, False, False, {}
"""


def test_the_memory_of_all_children_together_is_bounded():
    with BlockingPool(Limits(total_bytes=300 << 20)) as small:
        sessions = small.open([HOARD] * 6)
        small.reset([(session, 1) for session in sessions])
        results = small.step([(session, "20") for session in sessions])
        assert all(isinstance(result, StepResult) for result in results)
        small.step([(session, "100") for session in sessions])
        deadline = time.monotonic() + 10.0
        while sum(map(small.lost, sessions)) < 3 and time.monotonic() < deadline:
            small.step([next((s, "100") for s in sessions if not small.lost(s))])
            time.sleep(0.05)
        assert sum(map(small.lost, sessions)) in (3, 4)
        lost = next(session for session in sessions if small.lost(session))
        assert "together" in small.step([(lost, "1")])[0].detail


def test_further_packages_can_be_allowed():
    source = HOARD.replace('return "empty"', 'import sympy; return str(sympy.Rational(1, 3))')
    with BlockingPool(Limits(packages=("sympy",))) as wider:
        (session,) = wider.open([source])
        assert wider.reset([(session, 1)])[0].text == "1/3"


def test_a_package_that_is_not_installed_is_named():
    with (
        BlockingPool(Limits(packages=("no_such_package",))) as wider,
        pytest.raises(RunnerError, match="no_such_package"),
    ):
        wider.layers()
