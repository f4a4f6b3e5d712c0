from pathlib import Path

import pytest

from spade_jax.text import SentencePieceTokenizer, train_sentencepiece

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
