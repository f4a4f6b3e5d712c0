"""Hints, audit, self-judge and yardstick in the cycle: real sandboxes, a scripted server."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from configs import tiny
from sandbox_runner import BlockingPool
from spade_jax.cycle import advice_metrics, judge_new, measure, raw_reward, speaking_phases
from spade_jax.cycle.advising import advise
from spade_jax.designer import BROKEN, Environment
from spade_jax.designer.wire import DESIGNS
from spade_jax.envs.library import GAMES
from spade_jax.parallel import Hosts
from spade_jax.progress import Progress
from spade_jax.prompts import Prompts
from spade_jax.remote import RemoteEngine, open_remote
from spade_jax.rl import RewardSettings, SkillAverages
from spade_jax.rollout import Episode, PlaySettings, Task, Trajectory
from spade_jax.text import Message
from tests.envs.shop import DONE, SHOP, call
from tests.metrics_docs import undocumented
from tests.parallel.threads import everywhere, groups
from tests.remote.server import fails, says, serving

SKILL = "spatial reasoning"
AVERAGES = {SKILL: SkillAverages(0.5, 0.5)}
ECHO = '''
class EchoEnv:
    def __init__(self, max_turns=4, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        self.turn, self.word = 0, random.Random(seed).choice(["amber", "beryl", "coral"])
        return f"say {self.word[:2]}", {}
    def solution(self):
        return self.word
    def step(self, action):
        self.turn += 1
        won = self.word in action
        return "again", float(won), won, self.turn >= self.max_turns, {}
'''


@pytest.fixture(scope="module")
def pool():
    with BlockingPool() as pool:
        yield pool


def recipe(server, **settings):
    config = tiny.get_config()
    config.remote.update({"base_url": server.url, "model": "m", "retries": 0, "timeout_s": 30.0})
    for key, value in settings.items():
        section, field = key.split("__")
        config[section][field] = value
    return config


@contextlib.contextmanager
def advised(pool, answers, **settings):
    """The rooms of a run whose every model is the server."""
    with serving(answers) as server:
        config = recipe(server, **settings)
        with open_remote(config) as model:
            own = RemoteEngine(model, "self") if model else None
            yield SimpleNamespace(
                config=config, prompts=Prompts("chat"), pool=pool, hosts=Hosts(), server=model,
                engines={"designer": own, "agent": own},
                language=SimpleNamespace(chats={"designer": own.chat if own else None}),
                reward_settings=RewardSettings(), requests=server.requests,
            )  # fmt: skip


def draft(name="a", source=ECHO, hint="", **fields):
    row = Trajectory()
    row.append_sampled([5], [-1.0], 0)
    return Environment(name, SKILL, None, source, 0, row, source=source, hint=hint, **fields)


def play_of(*replies, outcome="terminated", reward=1.0):
    episode = Episode(Task(None, 0, 0, PlaySettings(1.0, 5, 8)), outcome=outcome, reward=reward)
    episode.transcript = [Message("user", "say am")]
    episode.transcript += [Message("assistant", reply) for reply in replies]
    return episode


progress = Progress(1)


def prompt_of(request):
    return request["messages"][0]["content"]


def test_with_the_defaults_nobody_is_asked(pool):
    with advised(pool, [fails(500)]) as rooms:
        assert rooms.server is None
        fresh = [draft(hint="inline")]
        advise(rooms, fresh, progress)
        judge_new(rooms, fresh, fresh, {"plain": [[play_of("x")]]}, progress)
        measure(rooms, fresh, progress)
        assert advice_metrics(rooms, fresh, fresh) == {}
        assert fresh[0] == draft(hint="inline")


def test_an_external_hint_is_written_from_the_source_alone(pool):
    answers = [says(f"```python{ECHO}```\n**Hint:** look at the first\nletters. " + "more " * 200)]
    with advised(pool, answers, hints__source="external") as rooms:
        sound, rejected = draft("a"), draft("b")
        rejected.reject("load", "no")
        advise(rooms, [sound, rejected], progress)
        assert sound.accepted and sound.hint.startswith("look at the first letters. more")
        assert len(sound.hint.split()) == 100
        (request,) = rooms.requests  # the rejected one costs nothing
        assert ECHO in prompt_of(request) and "100 words" in prompt_of(request)
        assert request["temperature"] == 0.3
        metrics = advice_metrics(rooms, [sound, rejected], [])
        assert metrics["remote/hints/calls"] == 1 and metrics["remote/breaker_open"] == 0


@pytest.mark.parametrize(
    "answer,reason",
    [
        (fails(503, "busy"), "status: 503"),
        (says(""), "empty"),
        (says("half a hi", finish="length"), "cut"),
        (says("<think>what to say</think>"), "empty"),
        (says(f"```python{ECHO}```\n"), "no hint"),
    ],
)
def test_without_a_hint_the_design_is_rejected_and_its_designer_excused(pool, answer, reason):
    with advised(pool, [answer], hints__source="external") as rooms:
        design = draft(hint="an inline one")
        advise(rooms, [design], progress)
        assert design.stage == "hint" and reason in design.reason
        rooms.config.designer.train_invalid = True
        assert raw_reward(rooms, design, AVERAGES) is None
        design.first_stage = "load"  # repaired, and its first source is still its own
        paid = raw_reward(rooms, design, AVERAGES)
        assert paid == rooms.config.designer.invalid_reward


def test_the_model_itself_writes_hints_and_audits_with_the_designers_engine(pool):
    def answer(request):
        audit = "Verdict: solvable" in prompt_of(request)
        return says("Verdict: solvable" if audit else "<think>a</think>take the letters")

    settings = {
        "hints__source": "self", "audit__enabled": True, "audit__source": "self",
        "yardstick__enabled": True,  # so that there is a server, here in the engine's place
    }  # fmt: skip
    with advised(pool, answer, **settings) as rooms:
        design = draft()
        advise(rooms, [design], progress)
        assert (design.audit, design.hint) == ("solvable", "take the letters")
        use = rooms.server.take_use()
        assert use["self"].calls == 2 and len(use) == 1


def test_an_inline_hint_is_cut_like_any_other(pool):
    settings = {"hints__max_words": 3, "hints__leak_check": True}
    with advised(pool, [fails(500)], **settings) as rooms:
        design = draft(hint="read it twice: amber beryl coral")
        advise(rooms, [design], progress)
        assert design.hint == "read it twice:" and not design.leaked


def test_engines_speak_where_they_are_asked():
    config = tiny.get_config()
    assert speaking_phases(config) == {"designer": ("design",), "agent": ("play", "judge")}
    config.hints.source = config.audit.source = "self"
    assert speaking_phases(config)["designer"] == ("design", "audit", "hint")


@pytest.mark.parametrize("on_leak", ["reject", "drop"])
@pytest.mark.parametrize("source", ["inline", "external"])
def test_a_hint_that_holds_the_answers_leaks(pool, on_leak, source):
    words = "It is amber, beryl or coral."
    settings = {
        "hints__leak_check": True, "hints__on_leak": on_leak, "hints__source": source
    }  # fmt: skip
    with advised(pool, [says(words)], **settings) as rooms:
        design = draft(hint=words)
        advise(rooms, [design], progress)
        metrics = advice_metrics(rooms, [design], [])
        assert design.leaked and metrics["hint/leaks"] == 1 and undocumented(metrics) == set()
        if on_leak == "drop":
            assert design.accepted and design.hint == ""
        else:
            assert design.stage == "hint_leak" and "amber" in design.reason
            rooms.config.designer.train_invalid = True
            paid = raw_reward(rooms, design, AVERAGES)
            assert paid == (rooms.config.designer.invalid_reward if source == "inline" else None)


@pytest.mark.parametrize("hint", ["Say the stone's whole name.", "ambergris, coralline", ""])
def test_a_strategy_does_not_leak(pool, hint):
    with advised(pool, [fails(500)], hints__leak_check=True) as rooms:
        design = draft(hint=hint)
        advise(rooms, [design], progress)
        assert design.accepted and not design.leaked and design.hint == hint


def test_without_a_solution_or_a_program_nothing_leaks(pool):
    with advised(pool, [fails(500)], hints__leak_check=True) as rooms:
        silent = draft("a", ECHO.replace("solution", "key"), "amber beryl coral")
        broken = draft("b", "class A(", "amber beryl coral")
        advise(rooms, [silent, broken], progress)
        assert not silent.leaked and not broken.leaked


def test_the_seed_librarys_hints_are_no_leaks(pool):
    with advised(pool, [fails(500)], hints__leak_check=True) as rooms:
        made = [f.sample(np.random.default_rng(0), 6) for f in GAMES.families.values()]
        designs = [draft(str(k), one.source, one.hint) for k, one in enumerate(made)]
        advise(rooms, designs, progress)
        assert not any(design.leaked for design in designs)


def test_of_several_requests_the_calls_are_secret_and_the_word_that_ends_each_is_not(pool):
    told = " ".join(f"{call('buy', item)} {DONE}" for item in ("pen", "ink", "paper"))
    with advised(pool, [fails(500)], hints__leak_check=True) as rooms:
        fair, telling = draft("a", SHOP, "Say done after each."), draft("b", SHOP, told)
        advise(rooms, [fair, telling], progress)
        assert (fair.leaked, telling.leaked) == (False, True)


@pytest.mark.parametrize(
    "answer,verdict",
    [
        (says("Fine.\nVerdict: solvable"), "solvable"),
        (says("I first wrote\nVerdict: solvable\nbut no.\n**Verdict:** Unsolvable."), "unsolvable"),
        (says("<think>\nVerdict: unsolvable\n</think>\n\nVerdict: solvable"), "solvable"),
        (says("It is solvable."), "unknown"),
        (says("Verdict: not solvable"), "unknown"),
        (says("Verdict: hard"), "unknown"),
        (says("Verdict: solvable", finish="length"), "unknown"),
        (says(""), "unknown"),
        (fails(500), "unknown"),
    ],
)
@pytest.mark.parametrize("unknown", ["accept", "reject"])
def test_the_audit_rejects_what_can_not_be_solved(pool, answer, verdict, unknown):
    with advised(pool, [answer], audit__enabled=True, audit__unknown=unknown) as rooms:
        design = draft(hint="h")
        advise(rooms, [design], progress)
        assert design.audit == verdict
        kept = verdict == "solvable" or (verdict, unknown) == ("unknown", "accept")
        assert design.accepted == kept and (kept or design.stage == "audit" and design.reason)
        assert design.excused == (not kept and verdict == "unknown")
        metrics = advice_metrics(rooms, [design], [])
        assert {k: v for k, v in metrics.items() if k.startswith("audit/")} == {
            f"audit/{word}": word == verdict for word in ("solvable", "unsolvable", "unknown")
        }
        assert undocumented(metrics) == set()
        assert "difficulty is no fault" in prompt_of(rooms.requests[0])


def test_what_passes_unaudited_while_the_server_is_left_alone_is_counted(pool):
    with advised(pool, [fails(500)], audit__enabled=True, remote__breaker_failures=1) as rooms:
        advise(rooms, [draft()], progress)
        designs = [draft(f"{k}") for k in range(3)]
        advise(rooms, designs, progress)
        assert all(design.accepted for design in designs) and len(rooms.requests) == 1
        metrics = advice_metrics(rooms, designs, [])
        assert (metrics["audit/unknown"], metrics["audit/solvable"]) == (3, 0)
        assert metrics["remote/breaker_open"] == 1


def test_what_the_audit_rejects_needs_no_hint(pool):
    answers = [says("Verdict: unsolvable")]
    with advised(pool, answers, audit__enabled=True, hints__source="external") as rooms:
        design = draft()
        advise(rooms, [design], progress)
        assert design.stage == "audit" and len(rooms.requests) == 1


@pytest.mark.parametrize("word,cost", [("works", 0.0), ("broken", 0.5), ("so-so", 0.0)])
def test_a_world_that_the_model_finds_broken_is_paid_less(pool, word, cost):
    settings = {"designer__self_judge": True, "yardstick__enabled": True}
    with advised(pool, [says(f"Verdict: {word}")], **settings) as rooms:
        new, silent, old = draft("a"), draft("b"), draft("c")
        void = play_of(outcome="void")
        played = {"plain": [[void, play_of("moss", "fern")], [void], [play_of("x")]]}
        judge_new(rooms, [new, silent], [new, silent, old], played, progress)
        (request,) = rooms.requests
        assert "[environment] say am" in prompt_of(request) and "[agent] fern" in prompt_of(request)
        assert new.judgement == (word if word in ("works", BROKEN) else "unknown")
        assert silent.judgement is None and old.judgement is None
        assert advice_metrics(rooms, [new, silent], [])["judge/unknown"] == (word == "so-so")
        new.hint_returns, new.windows = [1.0, 1.0], [[0.0, 1.0]]
        judged = raw_reward(rooms, new, AVERAGES)
        new.judgement = None
        assert judged == pytest.approx(raw_reward(rooms, new, AVERAGES) - cost)


def test_the_servers_model_plays_new_worlds_once_and_its_returns_are_kept(pool):
    def answer(request):
        stem = request["messages"][0]["content"].split()[1]
        retried = len(request["messages"]) > 1
        names = {"am": "amber", "be": "beryl", "co": "coral"}
        return says(rf"\boxed{{{names[stem]}}}" if retried else r"\boxed{stone}")

    with advised(pool, answer, yardstick__enabled=True, yardstick__plays=3) as rooms:
        live = [draft("a"), draft("b", yardstick=[0.0])]
        measure(rooms, live, progress)
        assert live[0].yardstick == [1.0] * 3 and live[1].yardstick == [0.0]
        assert len(rooms.requests) == 3 * 2
        metrics = advice_metrics(rooms, [], live)
        assert metrics["yardstick/win_rate"] == metrics["yardstick/win_rate/spatial_reasoning"]
        assert metrics["yardstick/win_rate"] == pytest.approx(3 / 4)
        live[1].skill = ""
        metrics |= advice_metrics(rooms, [], live)
        assert metrics["yardstick/win_rate/spatial_reasoning"] == 1.0
        assert undocumented(metrics) == set()
        measure(rooms, live, progress)
        assert len(rooms.requests) == 3 * 2
        assert DESIGNS.decode(DESIGNS.encode(live)) == live


def test_the_servers_model_uses_tools_too(pool):
    def answer(request):
        said = [message["content"] for message in request["messages"]]
        assert said[0].startswith("You may call") and '"price"' in said[0]
        item = next(item for item in ("paper", "ink", "pen") if item in said[-1])
        return says(DONE if "bought" in said[-1] else call("buy", item))

    with advised(pool, answer, yardstick__enabled=True, yardstick__plays=1) as rooms:
        live = [draft(source=SHOP)]
        measure(rooms, live, progress)
        assert live[0].yardstick == [1.0]
        replied = rooms.requests[1]["messages"][-1]
        assert replied["role"] == "user"
        assert "<tool_response>\nbought pen\n</tool_response>" in replied["content"]


def test_a_play_without_an_answer_is_no_loss_and_asked_for_again(pool):
    with advised(pool, [fails(500)], yardstick__enabled=True, yardstick__plays=2) as rooms:
        live = [draft("a")]
        measure(rooms, live, progress)
        assert live[0].yardstick == []
        metrics = advice_metrics(rooms, [], live)
        assert "yardstick/win_rate" not in metrics
        assert metrics["remote/yardstick/failures"] == 2
        measure(rooms, live, progress)
        assert len(rooms.requests) == 4


def test_each_process_asks_for_its_share_and_all_know_every_answer():
    def answer(request):
        return says("Verdict: " + ("broken" if "e3" in prompt_of(request) else "works"))

    members, _, _ = groups(2)
    settings = {"designer__self_judge": True, "yardstick__enabled": True}
    with (
        advised(None, answer, **settings) as first,
        advised(None, answer, **settings) as second,
    ):
        processes = (first, second)

        def judged(group):
            rooms = processes[group.index]
            rooms.hosts = group
            fresh = [draft(f"e{k}", f"# e{k}") for k in range(5)]
            judge_new(rooms, fresh, fresh, {"plain": [[play_of("x")]] * 5}, progress)
            return [e.judgement for e in fresh], advice_metrics(rooms, fresh, fresh)

        (one, metrics), (other, same) = everywhere(members, judged)
        assert one == other == ["works"] * 3 + ["broken", "works"]
        assert [len(rooms.requests) for rooms in processes] == [3, 2]
        assert metrics == same and metrics["remote/self/calls"] == 5
        assert undocumented(metrics) == set()
