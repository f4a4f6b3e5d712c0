"""The asyncio face: many batches at once, none of which waits for another."""

import asyncio
import contextlib

import pytest

from sandbox_runner import EnvError, Limits, Pool, RunnerError, StepResult

ECHO = """
class EchoEnv:
    def reset(self, seed=None):
        self.turn = 0
        return f"seed {seed}"
    def step(self, action):
        self.turn += 1
        while action == "hang": pass
        return f"{self.turn} {action}", 0.0, False, False, {}
    def solution(self):
        return "go"
"""
LIMITS = Limits(call_cpu=0.5, load_cpu=0.5, sleep_wall=0.5)


def run(scenario):
    """`scenario(pool)` in an event loop of its own."""

    async def main():
        async with Pool(LIMITS) as pool:
            return await asyncio.wait_for(scenario(pool), 60.0)

    return asyncio.run(main())


async def opened(pool, count, **options):
    sessions = await pool.open([ECHO] * count, **options)
    await pool.reset([(session, 3) for session in sessions])
    return sessions


def test_open_reset_step_solution_close():
    async def scenario(pool):
        assert (await pool.layers())["seccomp"] == ""
        sessions = await pool.open([ECHO] * 5 + ["no class"], [True] * 6)
        assert [isinstance(session, EnvError) for session in sessions] == [False] * 5 + [True]
        starts = await pool.reset([(s, seed) for seed, s in enumerate(sessions[:5])])
        assert [start.text for start in starts] == [f"seed {seed}" for seed in range(5)]
        results = await pool.step([(session, f"a{n}") for n, session in enumerate(sessions[:5])])
        assert [result.observation for result in results] == [f"1 a{n}" for n in range(5)]
        assert await pool.solution(sessions[:2]) == ["go", "go"]
        await pool.close(sessions[:5])
        with pytest.raises(RunnerError, match="not open"):
            await pool.step([(sessions[0], "x")])

    run(scenario)


def test_a_batch_does_not_wait_for_another_that_hangs():
    async def scenario(pool):
        slow, *quick = await opened(pool, 5)
        hanging = asyncio.ensure_future(pool.step([(slow, "hang")]))
        for turn in range(1, 6):
            results = await pool.step([(session, "go") for session in quick])
            assert [result.observation for result in results] == [f"{turn} go"] * 4
        assert not hanging.done()
        (error,) = await hanging
        assert isinstance(error, EnvError) and error.stage == "limits"
        assert pool.lost(slow) and not pool.lost(quick[0])

    run(scenario)


def test_a_session_answers_one_call_at_a_time():
    async def scenario(pool):
        (session,) = await opened(pool, 1)
        first = asyncio.ensure_future(pool.step([(session, "one")]))
        await asyncio.sleep(0)
        with pytest.raises(RunnerError, match="has not answered"):
            await pool.step([(session, "two")])
        assert (await first)[0].observation == "1 one"

    run(scenario)


def test_a_cancelled_wait_leaves_the_pool_as_if_it_had_waited():
    async def scenario(pool):
        sessions = await opened(pool, 3, max_turns=2)
        waiting = asyncio.ensure_future(pool.step([(session, "go") for session in sessions]))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        for _ in range(200):  # until what nobody waits for is answered
            await asyncio.sleep(0.05)
            with contextlib.suppress(RunnerError):
                results = await pool.step([(session, "on") for session in sessions])
                break
        assert [r.observation for r in results] == ["2 on"] * 3
        assert all(isinstance(r, StepResult) and r.truncated for r in results)

    run(scenario)


def test_a_cancelled_open_leaves_no_children():
    async def scenario(pool):
        for _ in range(4):
            opening = asyncio.ensure_future(pool.open([ECHO] * 5))
            await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        for _ in range(200):
            await asyncio.sleep(0.05)
            if not len(pool._sessions.exchange):
                return
        raise AssertionError("children are left that nobody can close")

    run(scenario)


def test_what_computes_after_its_answer_is_ended_though_nobody_asks():
    source = ECHO.replace(
        "self.turn += 1",
        "import signal\n"
        "        def burn(*_):\n"
        "            while True: pass\n"
        "        signal.signal(signal.SIGALRM, burn)\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0.05); self.turn += 1",
    )

    async def scenario(pool):
        (session,) = await pool.open([source])
        await pool.reset([(session, 1)])
        await pool.step([(session, "go")])
        for _ in range(200):
            await asyncio.sleep(0.05)
            if pool.lost(session):
                return
        raise AssertionError("it still computes")

    run(scenario)


def test_a_host_that_is_not_safe_is_refused_on_entering(monkeypatch):
    from sandbox_runner import zygote_client

    def insist(report, allowed):
        raise RunnerError("this host cannot contain untrusted programs")

    monkeypatch.setattr(zygote_client.confine, "insist", insist)
    with pytest.raises(RunnerError, match="cannot contain"):
        run(opened)
