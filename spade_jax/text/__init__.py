"""Text in, token ids out, and back."""

from spade_jax.text.actions import (
    Design,
    ParseProblem,
    after_code,
    canonical_action,
    code_block,
    last_boxed,
    parse_design,
)
from spade_jax.text.chat import ROLES, ChatRenderer, Message, TinyChat
from spade_jax.text.errors import TextError
from spade_jax.text.tokenizer import (
    NUMBERS,
    SPECIAL_NAMES,
    SentencePieceTokenizer,
    Tokenizer,
    train_sentencepiece,
)

__all__ = [
    "NUMBERS",
    "ROLES",
    "SPECIAL_NAMES",
    "ChatRenderer",
    "Design",
    "Message",
    "ParseProblem",
    "SentencePieceTokenizer",
    "TextError",
    "TinyChat",
    "Tokenizer",
    "after_code",
    "canonical_action",
    "code_block",
    "last_boxed",
    "parse_design",
    "train_sentencepiece",
]
