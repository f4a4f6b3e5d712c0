import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_jax.text import ROLES, SPECIAL_NAMES, Message, TextError, TinyChat

MARKERS = [f"<|{name}|>" for name in SPECIAL_NAMES]
contents = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.lists(st.sampled_from([*MARKERS, "\n", "user: ", "x"]), max_size=6).map("".join),
)
messages = st.lists(
    st.builds(Message, st.sampled_from(["system", "user", "tool"]), contents),
    min_size=1,
    max_size=4,
)
sampled = st.lists(st.integers(0, 799), max_size=12)


@pytest.fixture(scope="module")
def chat(tokenizer):
    return TinyChat(tokenizer)


def frames(tokenizer, ids):
    """Reads ids back into (role, content) pairs, by the special ids alone."""
    roles = {tokenizer.special(role): role for role in ROLES}
    end, found, role, start = tokenizer.special("end"), [], None, 0
    for position, token in enumerate(ids):
        if token in roles:
            role, start = roles[token], position + 1
        elif token == end:
            found.append((role, tokenizer.decode(ids[start:position])))
    return found


def test_the_template_is_a_role_the_text_and_end(tokenizer, chat):
    name = tokenizer.special
    ids = chat.open([Message("system", "Play."), Message("user", "Guess 7")])
    assert ids == [
        name("bos"),
        name("system"), *tokenizer.encode("Play."), name("end"),
        name("user"), *tokenizer.encode("Guess 7"), name("end"),
        name("assistant"),
    ]  # fmt: skip
    assert chat.extend([Message("tool", "4"), Message("user", "Go on")]) == [
        name("tool"), *tokenizer.encode("4"), name("end"),
        name("user"), *tokenizer.encode("Go on"), name("end"),
        name("assistant"),
    ]  # fmt: skip


def test_tools_are_a_line_each_at_the_end_of_the_system_message(tokenizer, chat):
    properties = {"where": {"type": "string"}, "n": {"type": "integer"}}
    look = {"name": "look", "description": "Reads.", "parameters": {"properties": properties}}
    tools = [{"function": look}, {"function": {"name": "end", "parameters": {}}}]
    said = [Message("user", "Go.")]
    shown = "look(where, n) Reads.\nend()"
    assert chat.open(said, tools) == chat.open([Message("system", shown), *said])
    both = Message("system", f"Play.\n{shown}")
    assert chat.open([Message("system", "Play."), *said], tools) == chat.open([both, *said])


@given(first=messages, turn=sampled, second=messages, third=messages)
def test_a_conversation_only_grows_and_keeps_what_was_sampled(chat, first, turn, second, third):
    row = chat.open(first)
    history = [list(row)]
    for new in (second, third):
        row = row + turn + [chat.stop_ids[0]] + chat.extend(new)
        history.append(list(row))
    for before, after in zip(history, history[1:], strict=False):
        assert after[: len(before)] == before
        assert after[len(before) : len(before) + len(turn)] == turn
    assert all(row[-1] == ids[-1] for ids in history)


@given(first=messages, reply=contents, second=messages)
def test_segments_join_to_the_same_ids_as_the_whole_conversation(chat, first, reply, second):
    grown = chat.open(first) + chat.reply(reply) + chat.extend(second)
    assert grown == chat.open([*first, Message("assistant", reply), *second])


@given(first=messages)
def test_text_can_neither_open_nor_close_a_turn(tokenizer, chat, first):
    read = frames(tokenizer, chat.open(first))
    assert read == [(message.role, message.content) for message in first]


def test_a_turn_that_was_cut_is_closed_by_the_suffix(tokenizer, chat):
    whole = chat.reply("half a sen")
    assert tokenizer.encode("half a sen") + list(chat.truncate_suffix) == whole
    assert whole[-1] in chat.stop_ids


@pytest.mark.parametrize(
    ("call", "turns", "message"),
    [
        ("open", [], "no message"),
        ("open", [Message("user", "a"), Message("assistant", "b")], "spoke last"),
        ("extend", [], "no message"),
        ("extend", [Message("assistant", "b"), Message("user", "a")], "assistant turn"),
    ],
)
def test_turns_that_make_no_conversation_are_refused(chat, call, turns, message):
    with pytest.raises(TextError, match=message):
        getattr(chat, call)(turns)


def test_an_unknown_role_is_answered_with_the_known_ones():
    with pytest.raises(TextError, match="'human'.*system, user, assistant, tool"):
        Message("human", "hello")
