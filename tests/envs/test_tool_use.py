"""Tool use from a sandbox session to token rows."""

import pytest

from sandbox_runner import BlockingPool, Limits
from spade_jax.envs import Player, PlayRequest, Program, SandboxWorld, Seat
from spade_jax.parallel import Hosts
from spade_jax.prompts import Prompts
from spade_jax.rollout import EPISODES, Feedback, PlaySettings, Task
from spade_jax.text import Message, Qwen3Chat
from tests.envs.shop import DONE, SHOP, call
from tests.rollout.scripted import ScriptedEngine, sampled, spelled

SETTINGS = PlaySettings(1.0, 9, 99)
ECHO = """
class EchoEnv:
    def get_tools(self):
        return [{"type": "function", "function": {"name": "echo"}}]
    def reset(self, seed=None):
        return "go"
    def step(self, action):
        return action, 0.0, False, False, {"tool_results": ["1", "2"]}
"""
THOUGHT = "<think>\n\\boxed{1} or <answer>?</answer>\n</think>\n\n"


@pytest.fixture(scope="module")
def pool():
    with BlockingPool(Limits(call_cpu=0.5)) as pool:
        yield pool


def test_an_environment_with_tools_reads_replies_whole_and_answers_in_messages(pool):
    (session,) = pool.open([SHOP])
    world = SandboxWorld(pool, Prompts("compact"))
    task = Task(Seat(session, "Pens first."), 0, 0, SETTINGS)

    def answer(reply):
        world.start_step(task, reply)
        ((_, feedback),) = world.poll(None)
        return feedback

    world.start_reset(task)
    ((_, first),) = world.poll(None)
    assert first.text.split() == ["A", "shop.", "Buy", "a", "pen.", "Hint:", "Pens", "first."]
    assert [tool["function"]["name"] for tool in first.tools] == ["price", "buy"]

    results = answer(THOUGHT + call("price", "pen") + call("buy", "pen"))
    said = Message("tool", "3"), Message("tool", "bought pen")
    assert results == Feedback(None, before=said)
    assert answer(THOUGHT + DONE) == Feedback("Buy ink.")
    lost = answer("I would say \\boxed{ink}.")
    assert lost.malformed and lost.messages == (Message("user", lost.text),)
    broken = answer(call("buy", "ink") + "<tool_call>{</tool_call>")
    assert broken.malformed and broken.text is None and len(broken.before) == 2
    assert answer("<think>" + DONE).malformed  # a thought that never ends says nothing
    both = answer(call("price", "ink") + DONE)
    assert both == Feedback("Buy paper.", before=(Message("tool", "3"),))
    assert answer(DONE) == Feedback("The request is not fulfilled.", terminated=True)
    pool.close([session])


@pytest.mark.parametrize(
    ("observed", "said"),
    [
        ("1\n2", None),
        ("1\n2\nNow the other.", "Now the other."),
        ("1\n23", "1\n23"),
        ("Both were called.", "Both were called."),
    ],
)
def test_what_was_observed_besides_the_results_is_said_by_the_user(pool, observed, said):
    (session,) = pool.open([ECHO])
    world, task = SandboxWorld(pool, Prompts("compact")), Task(Seat(session), 0, 0, SETTINGS)
    for ask in (world.start_reset, lambda task: world.start_step(task, observed)):
        ask(task)
        ((_, feedback),) = world.poll(None)
    assert feedback == Feedback(said, before=(Message("tool", "1"), Message("tool", "2")))
    pool.close([session])


@pytest.mark.parametrize("style", ["append", "system"])
def test_a_play_with_thinking_is_won_and_kept_turn_by_turn(pool, chatml_tokenizer, style):
    chat = Qwen3Chat(chatml_tokenizer)
    replies = [
        THOUGHT + call("price", "pen") + call("buy", "pen"), THOUGHT + DONE, "What now?",
        THOUGHT + call("buy", "ink"), DONE, call("buy", "paper"), DONE,
    ]  # fmt: skip
    engine = ScriptedEngine(spelled(replies, chatml_tokenizer, chat))
    player = Player(engine, chat, pool, Prompts("chat"), Hosts(), style)
    programs = [Program(SHOP, False, (PlayRequest(1, 2, "Pens first."),))]
    ((episode,),) = player.play(programs, SETTINGS)
    assert episode.outcome == "terminated" and episode.final_return == 1.0
    assert episode.replies == replies and episode.num_malformed() == 1
    told = [message.role for message in episode.transcript if "Pens first." in message.content]
    assert told == ["system" if style == "system" else "user"]
    assert sampled(episode.trajectories) == engine.said
    contexts = [
        tuple(chat.open(episode.transcript[:at], episode.tools))
        for at, message in enumerate(episode.transcript)
        if message.role == "assistant"
    ]
    assert [context for context, _ in engine.said] == contexts
    counts = [len(sampled([row])) for row in episode.trajectories]
    assert counts == [2, 3, 2]  # a row ends where the user speaks after a thought
    trained = sampled([row.without_malformed() for row in episode.trajectories])
    assert trained == [said for at, said in enumerate(engine.said) if at != 2]
    ((again,),) = EPISODES.decode(EPISODES.encode([[episode]]))
    assert (again.tools, again.trajectories) == (episode.tools, episode.trajectories)
