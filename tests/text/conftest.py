import warnings
from pathlib import Path

import pytest
import tokenizers

from spade_jax.text import HFTokenizer, SentencePieceTokenizer, train_sentencepiece
from spade_jax.wheels import WheelError
from tests.text.qwen3_files import fetch_qwen3

CHATML_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML_ADDED = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
)  # fmt: skip
# Qwen3's own: blank lines go together, whatever follows them.
QWEN3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

GUESS = '''import random

class GuessEnv:
    """Find the hidden number; each answer says whether it is higher or lower."""

    N = {n}

    def __init__(self, max_turns=8, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn = 0
        self.target = random.Random(seed).randint(1, self.N)
        return "Guess a number from 1 to " + str(self.N) + ".", {{}}

    def step(self, action):
        self.turn += 1
        guess = action.strip("\\\\boxed{{}}")
        if guess == str(self.target):
            return "Correct.", 1.0, True, False, {{}}
        return "Wrong.", 0.0, False, self.turn >= self.max_turns, {{}}
'''


@pytest.fixture(scope="session")
def sources() -> list[str]:
    return [GUESS.format(n=n) for n in range(3, 60)]


@pytest.fixture(scope="session")
def model_path(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "text.model"
    train_sentencepiece([*sources, "The answer is \\boxed{7}.", "héllo wörld\n"], path, 800)
    return path


@pytest.fixture(scope="session")
def tokenizer(model_path: Path) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(model_path)


@pytest.fixture(scope="session")
def chatml_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level `tokenizer.json` with ChatML's special tokens, Qwen3's added ones and its
    cuts; it asks for truncation and padding, as files on the hub do."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(QWEN3_SPLIT), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=list(CHATML_SPECIAL),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    lines = ["user\nassistant\nsystem\ntool\n\n\n im_start im_end <|im end|> think"] * 9
    backend.train_from_iterator([*lines, GUESS], trainer)
    backend.add_tokens(list(CHATML_ADDED))
    backend.enable_truncation(4)
    backend.enable_padding(length=9)
    path = tmp_path_factory.mktemp("chatml") / "tokenizer.json"
    backend.save(str(path))
    return path


@pytest.fixture(scope="session")
def chatml_tokenizer(chatml_path: Path) -> HFTokenizer:
    return HFTokenizer(chatml_path)


@pytest.fixture(scope="session")
def qwen3_path() -> Path:
    """Qwen3's own `tokenizer.json`, fetched once; skips, with a warning, where it cannot be."""
    try:
        return fetch_qwen3()
    except WheelError as error:
        reason = f"NOT CHECKED against Qwen3's own tokenizer: {error}"
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def qwen3_tokenizer(qwen3_path: Path) -> HFTokenizer:
    return HFTokenizer(qwen3_path)
