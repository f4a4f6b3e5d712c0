"""Rows of one's own: read, kept with the run, trained; a bad line is named with file and number."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from configs import tiny
from spade_jax import parallel, warm_start
from spade_jax.interrupt import StopRequest
from spade_jax.prompts import Prompts
from spade_jax.text import TinyChat
from spade_jax.warm_start import WarmStartError, jsonl_rows, stage

DESIGN = "```python\nclass DoorEnv:\n    N = 3\n```\nHint: left."
ROWS = [
    {"prompt": "Make a door.", "response": DESIGN, "role": "designer", "origin": "hand"},
    {"prompt": "Which door?", "response": "\\boxed{left}"},
    {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Which door?"},
            {"role": "assistant", "content": "\\boxed{right}"},
            {"role": "user", "content": "No. Again?"},
            {"role": "assistant", "content": "\\boxed{left}"},
        ],
        "role": "agent",
    },
]


def written(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return f"jsonl:{path}"


def own(source, **changes):
    config = tiny.get_config()
    config.text.vocab_size = 400
    config.warm_start.sources = (source,)
    config.warm_start.steps, config.warm_start.tokens = 6, 512
    config.update_from_flattened_dict(changes)
    return config


def prepared(config, workdir):
    return warm_start.prepare(config, workdir, Prompts("compact"))


def opened(config, workdir):
    warm = prepared(config, workdir)
    mesh = parallel.make_mesh({}, jax.devices()[:1])
    return warm, mesh, warm_start.fresh_language(config, mesh, warm)


def test_prompt_and_response_and_messages_become_examples(tmp_path):
    warm = prepared(own(written(tmp_path / "a.jsonl", ROWS)), tmp_path / "run")
    design, short, long = warm.examples()
    assert [example.role for example in (design, short, long)] == ["designer", None, "agent"]
    assert [m.content for m in short.messages] == ["Which door?", "\\boxed{left}"]
    assert [m.role for m in long.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert len(warm.sources) == 1 and "DoorEnv" in next(iter(warm.sources))


def test_tools_of_a_row_are_what_its_assistant_may_call(tmp_path):
    tool = {"type": "function", "function": {"name": "read", "description": "", "parameters": {}}}
    said = [("user", "Row 7?"), ("assistant", "call"), ("tool", "41"), ("assistant", "41")]
    messages = [{"role": role, "content": content} for role, content in said]
    source = written(tmp_path / "a.jsonl", [{"messages": messages, "tools": [tool]}])
    (example,) = prepared(own(source), tmp_path / "run").examples()
    assert example.tools == (tool,)


def test_a_run_keeps_the_rows_it_was_started_with(tmp_path):
    config = own(written(tmp_path / "a.jsonl", ROWS))
    before = prepared(config, tmp_path / "run").examples()
    written(tmp_path / "a.jsonl", ROWS[:1])
    assert prepared(config, tmp_path / "run").examples() == before


def test_a_glob_and_the_library_are_joined_in_order(tmp_path):
    for name, row in zip("ab", ROWS, strict=False):
        written(tmp_path / f"{name}.jsonl", [row])
    config = own(f"jsonl:{tmp_path}/*.jsonl")
    config.warm_start.sources = ("library", f"jsonl:{tmp_path}/*.jsonl")
    config.warm_start.designs, config.warm_start.episodes = 20, 40
    examples = prepared(config, tmp_path / "run").examples()
    assert [example.role for example in examples] == ["designer"] * 20 + ["agent"] * 40 + [
        "designer", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": "Which?"}, "neither prompt and response nor messages"),
        ({"prompt": 3, "response": "x"}, "Expected `str"),
        ({"prompt": "a", "response": "b", "role": "judge"}, "judge"),
        ({"prompt": "a", "response": "b", "tools": ["read"]}, "Expected `object"),
        ({"messages": [{"role": "user", "content": "a"}]}, "must speak last"),
        ({**ROWS[1], "messages": ROWS[2]["messages"]}, "both messages and prompt"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "cannot speak first"),
        ({"messages": [{"role": r, "content": "a"} for r in ("user", *["assistant"] * 2)]},
         "twice in a row"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_example_is_named_and_nothing_is_left(tmp_path, row, why):
    source = written(tmp_path / "a.jsonl", [ROWS[0], row])
    with pytest.raises(WarmStartError, match=r"a\.jsonl, line 2: ") as error:
        prepared(own(source), tmp_path / "run")
    assert why in str(error.value)
    assert not (tmp_path / "run" / "warm_start" / "rows").exists()


def test_broken_lines_and_empty_files_are_errors(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"prompt": "\xff", "response": "x"}\n')
    with pytest.raises(WarmStartError, match="line 1"):
        prepared(own(f"jsonl:{tmp_path}/a.jsonl"), tmp_path / "run")
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(WarmStartError, match="holds no example"):
        prepared(own(f"jsonl:{tmp_path}/a.jsonl"), tmp_path / "run")
    with pytest.raises(WarmStartError, match="matches no file"):
        jsonl_rows.copy(f"jsonl:{tmp_path}/b.jsonl", tmp_path / "copies")


def test_a_row_without_a_role_goes_where_it_fits(tmp_path):
    config = own(written(tmp_path / "a.jsonl", [ROWS[1], ROWS[2] | {"role": None}]))
    config.learner.agent.length = 14
    warm, _, language = opened(config, tmp_path / "run")
    rows = stage._rows(config, language, warm.examples())
    assert {role: len(found) for role, found in rows.items()} == {"designer": 1, "agent": 1}
    assert len(rows["designer"][0].tokens) > config.learner.agent.length + 1


def test_each_role_s_rows_are_in_its_own_chat(tmp_path):
    class Loud(TinyChat):
        def open(self, messages, tools=()):
            return [0, *super().open(messages, tools)]

    config = own(written(tmp_path / "a.jsonl", [*ROWS[:2], ROWS[2] | {"role": None}]))
    config.learner.agent.length = 14
    warm, _, language = opened(config, tmp_path / "run")
    chats = language.chats | {"designer": Loud(language.tokenizer)}
    loud = dataclasses.replace(language, chats=chats)
    rows = stage._rows(config, loud, warm.examples())
    assert [row.tokens[0] == 0 for row in rows["designer"]] == [True, True]
    assert [row.tokens[0] == 0 for row in rows["agent"]] == [False]


def test_rows_of_one_role_train_alone_and_are_learnt(tmp_path):
    config = own(written(tmp_path / "a.jsonl", ROWS[1:2]))
    config.warm_start.steps = 40
    warm, mesh, language = opened(config, tmp_path / "run")
    losses = []
    params = warm_start.train(
        config, language, mesh, warm, lambda _, loss: losses.append(loss), StopRequest(60)
    )
    assert losses[-1] < 0.5 * losses[0]
    assert not np.array_equal(params["embedding"], language.params()["embedding"])
