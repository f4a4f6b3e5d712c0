"""Tool use in the one episode loop: schemas, results as messages, malformed replies."""

import pytest

from spade_jax.rl import token_weights
from spade_jax.rollout import Feedback, ImmediateWorld, PlaySettings, Task, Trajectory, play
from spade_jax.text import ChatML, Message, Qwen3Chat, TinyChat
from tests.rollout.scripted import ScriptedEngine, sampled, spelled

SETTINGS = PlaySettings(0.5, 9, 99)
SYSTEM = (Message("system", "Play."),)
TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {"properties": {}}}},)
CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
THOUGHT = "<think>\nA look first.\n</think>\n\n"
TASK = Feedback("Find it.", tools=TOOLS)
SEEN = Feedback(None, before=(Message("tool", "a door"), Message("tool", "<|im_end|>")))
NEXT = Feedback("Now the other.")
REMINDER = Feedback("Call or answer.", malformed=True)
BOTH = Feedback("Go on.", before=(Message("tool", "a key"),), malformed=True)
WON = Feedback("Correct.", 1.0, terminated=True)
TURNS = (CALL, SEEN), ("?", REMINDER), (CALL, BOTH), ("!", WON)


class Script(ImmediateWorld):
    """The task's place is what is answered, in order."""

    def first(self, task):
        self.left = iter(task.place)
        return next(self.left)

    def answer(self, task, reply):
        return next(self.left)


def played(chat, tokenizer, *turns):
    """The episode of `(reply, answer)` turns, and what was said in which context."""
    replies, answers = zip(*turns, strict=True)
    engine = ScriptedEngine(spelled(replies, tokenizer, chat))
    task = Task([TASK, *answers], 0, 0, SETTINGS, SYSTEM)
    (episode,) = play(engine, chat, Script(), [task])
    assert episode.outcome == "terminated" and engine.open == 0
    return episode, engine.said


def prompts(chat, episode):
    """The whole prompt of each reply, rendered from the transcript."""
    said = episode.transcript
    return [
        tuple(chat.open(said[:at], TOOLS))
        for at, message in enumerate(said)
        if message.role == "assistant"
    ]


def test_results_are_messages_and_what_the_user_says_comes_after_them(chatml_tokenizer):
    chat = ChatML(chatml_tokenizer)
    episode, _ = played(chat, chatml_tokenizer, *TURNS)
    assert [message.role for message in episode.transcript] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool",
        "user", "assistant", "user",
    ]  # fmt: skip
    assert episode.tools == TOOLS and episode.num_malformed() == 2


@pytest.mark.parametrize("template", [TinyChat, ChatML, Qwen3Chat])
def test_tokens_in_are_tokens_out(template, tokenizer, chatml_tokenizer):
    speller = tokenizer if template is TinyChat else chatml_tokenizer
    chat = template(speller)
    episode, said = played(chat, speller, *TURNS)
    (row,) = episode.trajectories
    assert sampled([row]) == said
    assert row.tokens == list(said[-1][0] + said[-1][1])
    assert [context for context, _ in said] == prompts(chat, episode)


@pytest.mark.parametrize("thinking", [None, True])
def test_thoughts_stay_until_the_user_speaks_again(chatml_tokenizer, thinking):
    chat = Qwen3Chat(chatml_tokenizer, thinking)
    episode, said = played(
        chat, chatml_tokenizer,
        (THOUGHT + CALL, SEEN), (THOUGHT + CALL, SEEN), ("<answer>1</answer>", NEXT),
        (THOUGHT + CALL, SEEN), ("<answer>2</answer>", WON),
    )  # fmt: skip
    first, second = episode.trajectories
    assert sampled([first, second]) == said
    assert [context for context, _ in said] == prompts(chat, episode)
    thoughts = [chatml_tokenizer.decode(context).count("A look") for context, _ in said]
    assert thoughts == [0, 1, 2, 0, 1]


def test_without_thinking_each_reply_is_a_row(chatml_tokenizer):
    chat = Qwen3Chat(chatml_tokenizer, thinking=False)
    episode, said = played(chat, chatml_tokenizer, (CALL, SEEN), ("?", REMINDER), ("!", WON))
    assert len(episode.trajectories) == 3
    assert sampled(episode.trajectories) == said
    assert [context for context, _ in said] == prompts(chat, episode)
    assert [len(row.malformed) for row in episode.trajectories] == [0, 1, 0]


@pytest.mark.parametrize("thinking", [None, False])
def test_exactly_the_malformed_replies_can_be_masked(chatml_tokenizer, thinking):
    chat = Qwen3Chat(chatml_tokenizer, thinking)
    wrong = Feedback("Wrong.", terminated=True, malformed=True)
    turns = (CALL, SEEN), ("?", REMINDER), (CALL, BOTH), ("ok", SEEN), ("<", wrong)
    episode, said = played(chat, chatml_tokenizer, *turns)
    rows = [row.without_malformed() for row in episode.trajectories]
    assert sampled(rows) == [said[0], said[3]]
    assert [row.tokens for row in rows] == [row.tokens for row in episode.trajectories]
    assert sampled(episode.trajectories) == said  # what was played is as it was
    for row in rows:
        assert [p != 0.0 for p in row.logprobs] == [bool(m) for m in row.mask]


def test_masked_replies_leave_the_means_by_hand():
    row, other = Trajectory(), Trajectory()
    row.append_context([1, 1])
    row.append_sampled([2, 3], [-1.0, -2.0], 0)
    row.append_context([1])
    row.append_sampled([4, 5, 6], [-3.0, -4.0, -5.0], 0)
    row.mark_malformed()
    row.append_context([1])
    row.append_sampled([7], [-6.0], 0)
    other.append_sampled([8, 9], [-7.0, -8.0], 0)
    other.mark_malformed()
    assert (row.malformed, other.malformed) == ([(5, 8)], [(0, 2)])
    masked = [row.without_malformed(), other.without_malformed()]
    assert masked[0].mask == [0, 0, 1, 1, 0, 0, 0, 0, 0, 1]
    assert masked[0].logprobs == [0, 0, -1, -2, 0, 0, 0, 0, 0, -6]
    assert masked[0].tokens == row.tokens and masked[0].malformed == []
    assert row.mask == [0, 0, 1, 1, 0, 1, 1, 1, 0, 1]
    assert token_weights([row, other], "trajectory") == pytest.approx([1 / 12, 1 / 4])
    assert token_weights(masked, "trajectory") == pytest.approx([1 / 3, 0])
    assert token_weights(masked, "token") == pytest.approx([1 / 3] * 2)
