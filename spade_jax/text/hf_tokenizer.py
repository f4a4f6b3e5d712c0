"""Tokenizers in Hugging Face's `tokenizer.json` format: Qwen3's, SmolLM2's and their kin."""

import os
import re
from collections.abc import Sequence

from etils import epath

from spade_jax import extras
from spade_jax.text.errors import TextError

NAMED: dict[str, str] = {"pad": "<|endoftext|>", "end": "<|im_end|>"}  # the ChatML family's

_SURROGATE = re.compile("[\ud800-\udfff]")


class HFTokenizer:
    """The pieces of a `tokenizer.json`.

    Special is what the file marks so. An added token that it does not mark (`<think>` and
    `<tool_call>` in Qwen3) is text: `encode` makes one id of it and `decode` spells it out.
    `decode(encode(text))` is `text` up to the file's own normalisation (NFC in Qwen3), with U+FFFD
    for lone surrogates. Pickling keeps the file's bytes, not its path.
    """

    def __init__(self, path: str | os.PathLike[str], vocab_size: int | None = None) -> None:
        """`vocab_size`: rows of the model's embedding where it has more than the file has tokens;
        ids without a token decode to nothing. Raises TextError if there is no tokenizer at `path`,
        if text can spell a special token in it, if it has more than `vocab_size` ids, or if the
        package tokenizers is missing.
        """
        try:
            source = epath.Path(path).read_bytes()
        except OSError as error:
            raise TextError(f"no tokenizer can be read at {os.fspath(path)!r}: {error}") from error
        self._load(source, vocab_size, os.fspath(path))

    def _load(self, source: bytes, vocab_size: int | None, where: str) -> None:
        tokenizers = extras.require("tokenizers", "hf", TextError)
        try:
            backend = tokenizers.Tokenizer.from_buffer(source)
        except Exception as error:  # the library raises nothing narrower
            raise TextError(f"{where!r} is not a tokenizer.json: {error}") from error
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        least = 1 + max(backend.get_vocab().values(), default=0)
        if vocab_size is not None and vocab_size < least:
            raise TextError(f"{where!r} has {least} ids, more than vocab_size={vocab_size}")
        self._source, self._backend = source, backend
        self._vocab_size = vocab_size or least
        added = backend.get_added_tokens_decoder().items()
        self._specials = {token.content: index for index, token in added if token.special}
        self._special_ids = frozenset(self._specials.values())
        self._refuse_spellable(where)

    def _refuse_spellable(self, where: str) -> None:
        for text in (*self._specials, "\U0010ffff"):
            if self._special_ids.intersection(self._ids(text)):
                raise TextError(f"{where!r} makes a special token of the text {text!r}")

    def __getstate__(self) -> tuple[bytes, int]:
        return self._source, self._vocab_size

    def __setstate__(self, state: tuple[bytes, int]) -> None:
        self._load(*state, "a pickled tokenizer")

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    def encode(self, text: str) -> list[int]:
        return [index for index in self._ids(text) if index not in self._special_ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Raises TextError if an id is outside [0, vocab_size)."""
        plain = []
        for token in ids:
            index = int(token)
            if not 0 <= index < self._vocab_size:
                raise TextError(f"token id {index} is outside [0, {self._vocab_size})")
            if index not in self._special_ids:
                plain.append(index)
        return self._backend.decode(plain, skip_special_tokens=False)

    def special(self, name: str) -> int:
        """The id of a special token by its spelling (`<|im_start|>`) or by a key of NAMED.

        Raises TextError for a token the file lacks or does not mark as special.
        """
        try:
            return self._specials[NAMED.get(name, name)]
        except KeyError:
            known = ", ".join([*NAMED, *self._specials])
            raise TextError(f"no special token is named {name!r}; known are {known}") from None

    def piece(self, token: int) -> str:
        """How a token reads, special ones included: for logs and reports."""
        return self._backend.decode([int(token)], skip_special_tokens=False)

    def _ids(self, text: str) -> list[int]:
        return self._backend.encode(_SURROGATE.sub("\ufffd", text), add_special_tokens=False).ids
