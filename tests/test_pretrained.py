"""A public model, here a tiny one made for it, answers and plays; what is missing is named."""

import jax
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

import spade_jax.models as our_models
from configs import smollm2_135m
from spade_jax import modes, parallel, pretrained
from spade_jax.config import ConfigError
from spade_jax.models import ModelError
from spade_jax.models.convert import save_checkpoint, save_hf
from spade_jax.text import TextError

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
    made.agent.max_new_tokens = 6
    made.sampler.agent.max_len = 256
    made.sampler.agent.num_slots = 8  # as many as the tests have devices
    return made


def opened(config):
    return pretrained.open_pretrained(config, parallel.make_mesh(config.mesh))


def test_values_come_from_the_checkpoint_and_how_to_run_from_the_preset(config, params):
    found = opened(config)
    assert (found.model.rope_theta, found.model.norm_eps) == (123_456.0, 1e-5)
    assert found.model.remat == our_models.preset("smollm2_135m").remat
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(found.params), strict=True):
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
    same = jax.tree.map(lambda a, b: bool((a == b).all()), before.params, after.params)
    assert all(jax.tree.leaves(same))


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


def test_what_is_missing_is_named(config, folder, tmp_path):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(TextError, match="tokenizer.json is missing"):
        opened(config)
    config.model.checkpoint = str(tmp_path / "nowhere.gguf")
    with pytest.raises(ModelError, match="nowhere.gguf"):
        opened(config)


def test_modes_that_need_another_model_say_so(config, tmp_path):
    with pytest.raises(modes.ModeError, match="self-play starts from a new model"):
        modes.run_training(config, tmp_path, modes.Options())
    config.sampler.agent.num_slots = 3
    with pytest.raises(ConfigError, match="sampler.agent.num_slots=3.* 8"):
        modes.run_generate(config, tmp_path, modes.Options(prompt="Hello?"))
    config.model.checkpoint = ""
    with pytest.raises(modes.ModeError, match="model.checkpoint is empty"):
        modes.run_generate(config, tmp_path, modes.Options(prompt="Hello?"))
