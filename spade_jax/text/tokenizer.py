"""Text to token ids and back: the protocol, and a small tokenizer that a run trains itself."""

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import sentencepiece
from etils import epath

from spade_jax.text.errors import TextError
from spade_jax.text.escape import ALPHABET, read, spell

NUMBERS: tuple[str, ...] = tuple(str(number) for number in range(100))
SPECIAL_NAMES: tuple[str, ...] = ("pad", "bos", "end", "system", "user", "assistant", "tool")

_MAX_PIECE_CHARS = 128
# Sentencepiece holds positions in 16 bits and drops longer training sentences silently.
_MAX_LINE_CHARS = 8192


class Tokenizer(Protocol):
    """What the rest of the project knows of a tokenizer. Ids lie in [0, vocab_size)."""

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, never a special one, whatever the text spells."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of any ids, always one that UTF-8 can hold. Special ids are dropped."""

    def special(self, name: str) -> int:
        """The id of one of SPECIAL_NAMES. Raises TextError for a name the tokenizer lacks."""


class SentencePieceTokenizer:
    """Byte-pair pieces from a model that `train_sentencepiece` wrote.

    `decode(encode(text)) == text` for every text that UTF-8 can hold; a lone surrogate comes back
    as U+FFFD. Pickling keeps the model's bytes, not its path, so a tokenizer can cross processes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises TextError if there is no model at `path`, or another program's."""
        try:
            model = epath.Path(path).read_bytes()
        except OSError as error:
            raise TextError(f"no tokenizer can be read at {os.fspath(path)!r}: {error}") from error
        self._load(model, os.fspath(path))

    def _load(self, model: bytes, where: str) -> None:
        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise TextError(f"{where!r} is not a sentencepiece model: {error}") from error
        found = tuple(processor.id_to_piece(index) for index in range(len(SPECIAL_NAMES)))
        expected = tuple(_marker(name) for name in SPECIAL_NAMES)
        if found != expected:
            raise TextError(f"{where!r} opens with the pieces {found}, expected {expected}")
        self._model = model
        self._processor = processor

    def __getstate__(self) -> bytes:
        return self._model

    def __setstate__(self, model: bytes) -> None:
        self._load(model, "a pickled tokenizer")

    @property
    def vocab_size(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        return self._processor.encode(spell(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Raises TextError if an id is outside [0, vocab_size)."""
        plain = []
        for token in ids:
            index = int(token)
            if not 0 <= index < self.vocab_size:
                raise TextError(f"token id {index} is outside [0, {self.vocab_size})")
            if index >= len(SPECIAL_NAMES):
                plain.append(index)
        return read(self._processor.decode(plain))

    def special(self, name: str) -> int:
        try:
            return SPECIAL_NAMES.index(name)
        except ValueError:
            known = ", ".join(SPECIAL_NAMES)
            raise TextError(f"no special token is named {name!r}; known are {known}") from None

    def piece(self, token: int) -> str:
        """How a token reads, markers included: for logs and reports."""
        index = int(token)
        if 0 <= index < len(SPECIAL_NAMES):
            return self._processor.id_to_piece(index)
        return self.decode([index])


def train_sentencepiece(
    lines: Iterable[str],
    path: str | os.PathLike[str],
    vocab_size: int,
    atomic: Sequence[str] = NUMBERS,
) -> SentencePieceTokenizer:
    """Learns byte-pair merges from `lines`, writes the model to `path` and opens it.

    A piece may span a whole line with its indentation and its newline, but never more than a line:
    texts of several lines are cut after each newline. `atomic` texts are always one token and never
    part of a merge; where two of them could begin, the longer one does, so that an atomic line may
    hold numbers. Printable ASCII, seen or not, costs at most a token a character; any other
    character three to eight, or one if it is common in `lines`. The same lines give the same bytes.
    Raises TextError if there is nothing to learn from, or if `vocab_size` is too small for the
    alphabet or too large for this text.
    """
    _check_atomic(atomic, vocab_size)
    sentences = [spell(line) for text in lines for line in _cut(text)]
    if not sentences:
        raise TextError("a tokenizer cannot be trained on no text")
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            # Each character once by itself: it gets its piece, and no pair is counted.
            sentence_iterator=iter([*sentences, *ALPHABET]),
            model_writer=model,
            vocab_size=vocab_size,
            user_defined_symbols=[spell(text) for text in atomic],
            **_trainer_options(),
        )
    except RuntimeError as error:
        raise TextError(f"no vocabulary of {vocab_size} from this text: {error}") from error
    target = epath.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(model.getvalue())
    return SentencePieceTokenizer(path)


def _trainer_options() -> dict:
    pad, bos, *controls = (_marker(name) for name in SPECIAL_NAMES)
    return {
        "model_type": "bpe",
        "normalization_rule_name": "identity",
        "character_coverage": 1.0,
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
        "split_by_whitespace": False,
        "split_by_unicode_script": False,
        "split_by_number": False,
        "max_sentencepiece_length": _MAX_PIECE_CHARS,
        "max_sentence_length": 4 * _MAX_LINE_CHARS + 4,  # bytes
        # Padding takes the place of "unknown", which a complete alphabet leaves without a use.
        "unk_id": 0,
        "unk_piece": pad,
        "bos_id": 1,
        "bos_piece": bos,
        "eos_id": -1,
        "pad_id": -1,
        "control_symbols": controls,
        # Stored in the model, so it must not follow the machine.
        "num_threads": 1,
        "minloglevel": 2,
    }


def _marker(name: str) -> str:
    return f"<|{name}|>"


def _cut(text: str) -> Iterator[str]:
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        for start in range(0, len(line), _MAX_LINE_CHARS):
            yield line[start : start + _MAX_LINE_CHARS]


def _check_atomic(atomic: Sequence[str], vocab_size: int) -> None:
    if len(set(atomic)) != len(atomic) or "" in atomic:
        raise TextError("atomic texts must be distinct and not empty")
    markers = {_marker(name) for name in SPECIAL_NAMES}
    if clash := markers.intersection(atomic):
        raise TextError(f"atomic texts {sorted(clash)} are the names of special tokens")
    characters = len(set(ALPHABET).difference(map(spell, atomic)))
    least = len(SPECIAL_NAMES) + len(atomic) + characters
    if vocab_size < least:
        raise TextError(
            f"a vocabulary of {vocab_size} is too small: {len(SPECIAL_NAMES)} special tokens,"
            f" {len(atomic)} atomic texts and {characters} characters need {least}"
        )
