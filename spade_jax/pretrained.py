"""A public model with its tokenizer and chat template, converted once and then kept.

`config.model.checkpoint` says where it is: a folder of Hugging Face, a GGUF file, a folder that
`spade_jax.models.convert` wrote, or a name of `KNOWN`.
"""

import dataclasses
import functools
import os
import pathlib
import shutil

import jax
from ml_collections import ConfigDict

from spade_jax import models, parallel
from spade_jax.language import Language
from spade_jax.models import convert
from spade_jax.models.smollm2 import fetch_smollm2
from spade_jax.text import (
    ChatML,
    ChatRenderer,
    HFTokenizer,
    Qwen3Chat,
    TextError,
    Tokenizer,
)
from spade_jax.text.gguf_tokenizer import tokenizer_json

KNOWN = {"smollm2_135m": fetch_smollm2}
TOKENIZER = "tokenizer.json"
CHATS = {
    "chatml": ChatML,
    "qwen3": Qwen3Chat,
    "qwen3_thinking": functools.partial(Qwen3Chat, thinking=True),
    "qwen3_no_thinking": functools.partial(Qwen3Chat, thinking=False),
}
THINKING = ("qwen3", "qwen3_thinking", "qwen3_no_thinking")  # where config.ROLE.thinking may say so
# The config's; all else is the file's.
_HOW_TO_RUN = ("dtype", "remat", "scan_unroll", "attention", "experts")


def open_pretrained(config: ConfigDict, mesh) -> Language:
    """The model that `config.model.checkpoint` names; its parameters are read when asked for.

    Raises:
        ModelError, TextError: it is not there, not of a kind that we have, or has no tokenizer.
    """
    folder = _kept(config.model.checkpoint, pathlib.Path(config.model.cache).expanduser())
    how = models.from_config(config.model)
    same = {name: getattr(how, name) for name in _HOW_TO_RUN}
    model = dataclasses.replace(_shapes(folder), **same)
    tokenizer = HFTokenizer(folder / TOKENIZER, model.vocab_size)
    chats = {role: _chat(config, role, tokenizer) for role in ("designer", "agent")}
    return Language(model, tokenizer, chats, lambda: _params(folder, model, mesh))


def _chat(config: ConfigDict, role: str, tokenizer: Tokenizer) -> ChatRenderer:
    template, thinking = CHATS[config.text.chat], config[role].thinking
    return template(tokenizer) if thinking is None else template(tokenizer, thinking=thinking)


def _kept(checkpoint: str, cache: pathlib.Path) -> pathlib.Path:
    """A folder with weights and tokenizer; what came as GGUF is converted into the cache."""
    path = KNOWN[checkpoint](cache) if checkpoint in KNOWN else pathlib.Path(checkpoint)
    if not path.exists():
        raise TextError(
            f"model.checkpoint={checkpoint}: expected a folder or file that is there; a model of"
            f" the Hugging Face Hub comes by `hf download OWNER/NAME --local-dir {checkpoint}`"
        )
    if path.suffix != ".gguf":
        if not (path / TOKENIZER).is_file():
            raise TextError(f"{path / TOKENIZER} is missing: expected the tokenizer beside weights")
        return path
    folder = cache / path.stem
    if not (folder / TOKENIZER).is_file():
        if jax.process_count() > 1:  # saving is a collective operation
            raise models.ModelError(
                f"model.checkpoint={checkpoint}: expected a converted model in {folder}; start one"
                " process once, for example with --mode=generate --prompt=Hello"
            )
        partial = cache / f"{path.stem}.partial.{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        convert.to_checkpoint(str(path), str(partial), None)
        (partial / TOKENIZER).write_text(tokenizer_json(path))
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    return folder


def _is_ours(folder: pathlib.Path) -> bool:
    return (folder / "params").is_dir()


def _shapes(folder: pathlib.Path) -> models.ModelConfig:
    return convert.config_from_hf(convert.read_json(folder / convert.CONFIG))


def _params(folder: pathlib.Path, model: models.ModelConfig, mesh) -> models.Params:
    boxed = jax.eval_shape(lambda: models.init(model, jax.random.key(0)))
    shardings = parallel.tree_shardings(mesh, boxed)
    if _is_ours(folder):
        return convert.load_checkpoint(folder, "float32", shardings)[1]
    return convert.load(convert.open_source(folder), model, shardings=shardings)
