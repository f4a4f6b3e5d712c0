"""A public model, here a tiny one made for it, answers and plays; what is missing is named."""

import json

import jax
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

import spade_jax.models as our_models
from configs import smollm2_135m
from spade_jax import modes, parallel, pretrained
from spade_jax.checkpoint import CheckpointError
from spade_jax.config import ConfigError, validate
from spade_jax.models.convert import save_checkpoint, save_hf
from spade_jax.text import Message, TextError

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MODEL = our_models.ModelConfig(
    vocab_size=264, d_model=32, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8, d_ff=48,
    rope_theta=123_456.0, norm_eps=1e-5,
)  # fmt: skip
GAME = """
class DoorEnv:
    def __init__(self, max_turns=2):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "Which door?"
    def step(self, action):
        return "Shut.", 0.0, True, False, {}
"""
TOOLS = """
class ToolDoorEnv(ToolUseEnv):
    def reset(self, seed=None):
        self.begin()
        self._tools = {"open": {"description": "A door."}}
        return "Which door?", {}
    def tool_open(self):
        return "Shut."
"""


@pytest.fixture(scope="module")
def params():
    return parallel.unbox(our_models.init(MODEL, jax.random.key(0)))


@pytest.fixture
def folder(params, tmp_path):
    """As one downloads it: safetensors, config.json, tokenizer.json."""
    place = tmp_path / "public"
    save_hf(MODEL, params, place)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(
        models.BPE({text: n for n, text in enumerate([*SPECIALS, *alphabet])}, [])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(SPECIALS))
    backend.save(str(place / "tokenizer.json"))
    return place


@pytest.fixture
def config(folder, tmp_path):
    made = smollm2_135m.get_config()
    made.model.checkpoint = str(folder)
    made.model.cache = str(tmp_path / "cache")
    made.agent.max_new_tokens = made.designer.max_new_tokens = 6
    for role in ("designer", "agent"):
        made.sampler[role].max_len = 256
        made.sampler[role].num_slots = 8  # as many as the tests have devices
    return made


def opened(config):
    return pretrained.open_pretrained(config, parallel.make_mesh(config.mesh))


def test_values_come_from_the_checkpoint_and_how_to_run_from_the_preset(config, params):
    found = opened(config)
    assert (found.model.rope_theta, found.model.norm_eps) == (123_456.0, 1e-5)
    assert (found.model.remat, found.model.dtype) == ("none", "float32")  # overrides, preset
    read = jax.tree.leaves(found.params())
    for ours, theirs in zip(jax.tree.leaves(params), read, strict=True):
        assert (ours == theirs).all()
    assert found.tokenizer.vocab_size == 264


def test_a_converted_checkpoint_is_the_same_model(config, folder, params, tmp_path):
    before = opened(config)
    place = tmp_path / "converted"
    save_checkpoint(MODEL, params, place)
    (place / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    config.model.checkpoint = str(place)
    after = opened(config)
    assert after.model == before.model
    same = jax.tree.map(lambda a, b: bool((a == b).all()), before.params(), after.params())
    assert all(jax.tree.leaves(same))


@pytest.mark.parametrize(
    ("template", "designer", "agent", "thought"),
    [
        ("qwen3", True, False, (False, True)),
        ("qwen3", None, None, (False, False)),
        ("qwen3_no_thinking", None, True, (True, False)),
        ("qwen3_thinking", False, None, (True, False)),
    ],
)
def test_each_role_has_its_own_chat(config, template, designer, agent, thought):
    """An empty thought opens the replies of who does not think."""
    config.text.chat, config.designer.thinking, config.agent.thinking = template, designer, agent
    found = opened(config)
    prompts = [
        found.tokenizer.decode(found.chats[role].open([Message("user", "Hi")]))
        for role in ("designer", "agent")
    ]
    assert tuple(prompt.endswith("<think>\n\n</think>\n\n") for prompt in prompts) == thought


def test_a_prompt_is_answered_alike_each_time(config, tmp_path, capsys):
    said = []
    for _ in range(2):
        assert modes.run_generate(config, tmp_path, modes.Options(prompt="Hello?")) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and len(said[0].strip()) > 0


def test_it_plays_without_and_with_the_hint_beside(config, tmp_path, capsys):
    game = tmp_path / "door.py"
    game.write_text(GAME)
    game.with_suffix(".hint").write_text("The left one.")
    assert modes.run_play(config, tmp_path, modes.Options(env=str(game))) == 0
    said = capsys.readouterr().out
    assert said.count("Which door?") == 2 and said.count("The left one.") == 1


def test_it_calls_tools_and_is_told_the_hint_in_a_message_of_its_own(config, tmp_path, capsys):
    config.agent.hint_style = "system"
    game = tmp_path / "door.py"
    game.write_text(TOOLS)
    game.with_suffix(".hint").write_text("The left one.")
    assert modes.run_play(config, tmp_path, modes.Options(env=str(game))) == 0
    said = capsys.readouterr().out
    assert said.count("tool open: A door.") == said.count("user: Which door?") == 2
    assert said.count("system: Hint: The left one.\nuser: Which door?") == 1


def test_what_is_missing_is_named(config, folder, tmp_path):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(TextError, match="tokenizer.json is missing"):
        opened(config)
    config.model.checkpoint = str(tmp_path / "nowhere.gguf")
    with pytest.raises(TextError, match="nowhere.gguf: expected .*hf download"):
        opened(config)


def test_what_does_not_fit_is_named(config, tmp_path):
    config.sampler.designer.num_slots = 3
    with pytest.raises(ConfigError, match="sampler.designer.num_slots=3.* 8"):
        modes.run_generate(config, tmp_path, modes.Options(prompt="Hello?"))
    config.sampler.designer.num_slots = 8
    with pytest.raises(modes.ModeError, match="--prompt: .* tokens leave no room"):
        modes.run_generate(config, tmp_path, modes.Options(prompt="Hello? " * 50))
    config.model.checkpoint = ""
    with pytest.raises(CheckpointError, match="holds no checkpoints"):
        modes.run_generate(config, tmp_path, modes.Options(prompt="Hello?"))
    with pytest.raises(ConfigError, match="text.chat='chatml': expected tiny"):
        validate(config)
    config.model.checkpoint, config.text.chat = "smollm2_135m", "tiny"
    with pytest.raises(ConfigError, match="text.chat='tiny': expected one of chatml, qwen3"):
        validate(config)


def test_self_play_starts_from_it_and_goes_on(config, tmp_path, capsys):
    """The whole loop: examples, self-play, a resume, and the trained model answers."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "Which door?", "response": "The left one."}\n')
    config.warm_start.sources, config.warm_start.steps = (f"jsonl:{rows}",), 2
    config.prompts, config.warm_start.tokens = "compact", 8 * 511
    for role in ("designer", "agent"):
        config.learner[role].length, config.sampler[role].max_len = 511, 512
        config.learner[role].rows = config.sampler[role].num_slots = 8
    config.designer.max_new_tokens, config.eval.max_turns = 8, 1
    config.curriculum.num_envs, config.steps = 4, 1
    config.compilation_cache = jax.config.jax_compilation_cache_dir
    run = tmp_path / "run"
    assert modes.run_training(config, run, modes.Options()) == 0
    config.steps = 2
    assert modes.run_training(config, run, modes.Options()) == 0
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert rows[1]["designer/valid_fraction"] == 0.0  # such a model cannot write Python
    capsys.readouterr()
    assert modes.run_generate(config, run, modes.Options(prompt="Hello?")) == 0
    assert capsys.readouterr().out.strip()
