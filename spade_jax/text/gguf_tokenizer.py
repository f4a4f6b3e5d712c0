"""The tokenizer inside a GGUF file, as a document of the library `tokenizers`."""

import json
import os
from types import ModuleType
from typing import Any

from spade_jax import extras
from spade_jax.text.errors import TextError

_PREFIX = "tokenizer.ggml."
_DEFAULT_SPLITS = (
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)


def _byte_level(use_regex: bool) -> dict[str, Any]:
    """Bytes as printable characters; the regex is GPT-2's."""
    options = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **options}


def _split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False
    }  # fmt: skip


_GPT2 = [_byte_level(use_regex=True)]
_SINGLE_DIGITS = [{"type": "Digits", "individual_digits": True}, *_GPT2]
# By the names that llama.cpp gives to the ways of cutting text before the merges.
PRE_TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "smollm": _SINGLE_DIGITS,
    "starcoder": _SINGLE_DIGITS,
    "gpt-2": _GPT2,
    "default": [*map(_split, _DEFAULT_SPLITS), _byte_level(use_regex=False)],
}


def tokenizer_json(path: str | os.PathLike[str]) -> str:
    """The `tokenizer.json` of a GGUF file whose tokenizer is a byte-level BPE ("gpt2").

    Control tokens, and those that the file names as beginning, end, padding and so on, become
    special tokens. A byte that the vocabulary lacks is dropped from the text, as llama.cpp and
    the model's own tokenizer do. A file that names no pre-tokenizer gets llama.cpp's "default".

    Raises:
        TextError: no GGUF file, another kind of tokenizer, tokens that contradict each other, or
            the package gguf is missing.
    """
    where = os.fspath(path)
    fields = _fields(where)
    if (model := fields.get("model")) != "gpt2":
        raise TextError(f"{where!r} holds a tokenizer of kind {model!r}; only 'gpt2' is supported")
    if (pre := fields.get("pre", "default")) not in PRE_TOKENIZERS:
        known = ", ".join(PRE_TOKENIZERS)
        raise TextError(f"{where!r} needs the pre-tokenizer {pre!r}; supported: {known}")
    if missing := {"tokens", "merges"} - fields.keys():
        raise TextError(f"{where!r} lacks {', '.join(_PREFIX + name for name in sorted(missing))}")
    tokens = fields["tokens"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise TextError(f"{where!r} lists {len(tokens) - len(vocabulary)} tokens twice")
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(fields, where),
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": PRE_TOKENIZERS[pre]},
        "post_processor": _post_processor(fields, where),
        "decoder": _byte_level(use_regex=True),
        "model": _bpe(vocabulary, fields["merges"], where),
    }
    return json.dumps(document, ensure_ascii=False)


def _library() -> ModuleType:
    return extras.require("gguf", "hf", TextError)


def _fields(where: str) -> dict[str, Any]:
    """The file's tokenizer metadata, without their common prefix."""
    gguf = _library()
    try:
        reader = gguf.GGUFReader(where)
        return {
            key.removeprefix(_PREFIX): field.contents()
            for key, field in reader.fields.items()
            if key.startswith(_PREFIX)
        }
    except (OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise TextError(f"{where!r} is not a readable GGUF file: {error}") from error


def _added(fields: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Tokens that are found in text before the merges, in the order of their ids."""
    tokens, kinds = fields["tokens"], _library().TokenType
    types = fields.get("token_type", [kinds.NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise TextError(f"{where!r} has {len(tokens)} tokens, but {len(types)} token types")
    special = {i for i, kind in enumerate(types) if kind in (kinds.CONTROL, kinds.UNKNOWN)}
    special |= {index for name, index in fields.items() if name.endswith("_token_id")}
    if stray := [index for index in special if not 0 <= index < len(tokens)]:
        raise TextError(f"{where!r}: token ids {stray} are outside [0, {len(tokens)})")
    plain = {i for i, kind in enumerate(types) if kind == kinds.USER_DEFINED}
    options = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": index, "content": tokens[index], **options, "special": index in special}
        for index in sorted(special | plain)
    ]


def _post_processor(fields: dict[str, Any], where: str) -> dict[str, Any] | None:
    """Puts the beginning and end around a text, if the model was trained with them."""
    template, used = [{"Sequence": {"id": "A", "type_id": 0}}], {}
    for name, place in (("bos", 0), ("eos", 1)):
        if not fields.get(f"add_{name}_token", False):
            continue
        if (index := fields.get(f"{name}_token_id")) is None:
            raise TextError(f"{where!r} wants its {name} token added, but does not say which it is")
        token = fields["tokens"][index]
        template.insert(place * len(template), {"SpecialToken": {"id": token, "type_id": 0}})
        used[token] = {"id": token, "ids": [index], "tokens": [token]}
    if not used:
        return None
    options = {"single": template, "pair": template, "special_tokens": used}
    return {"type": "TemplateProcessing", **options}


def _bpe(vocabulary: dict[str, int], merges: list[str], where: str) -> dict[str, Any]:
    pairs = [merge.split(" ") for merge in merges]
    for pair in pairs:
        if len(pair) != 2 or not vocabulary.keys() >= {*pair, "".join(pair)}:
            raise TextError(f"{where!r}: the merge {' '.join(pair)!r} is not of two known tokens")
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocabulary,
        "merges": pairs,
    }
