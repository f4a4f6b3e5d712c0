"""Text in, token ids out, and back."""

from sandbox_runner.tool_calls import ToolCall
from spade_jax.text.actions import (
    Design,
    ParseProblem,
    after_code,
    after_thinking,
    canonical_action,
    code_block,
    last_boxed,
    parse_design,
)
from spade_jax.text.chat import ROLES, ChatRenderer, Message, TinyChat
from spade_jax.text.chatml import ChatML
from spade_jax.text.errors import TextError
from spade_jax.text.form import well_formed
from spade_jax.text.hf_tokenizer import HFTokenizer
from spade_jax.text.qwen3_chat import Qwen3Chat
from spade_jax.text.tokenizer import (
    NUMBERS,
    SPECIAL_NAMES,
    SentencePieceTokenizer,
    Tokenizer,
    train_sentencepiece,
)
from spade_jax.text.tool_schemas import Tools, tools_text

__all__ = [
    "NUMBERS",
    "ROLES",
    "SPECIAL_NAMES",
    "ChatML",
    "ChatRenderer",
    "Design",
    "HFTokenizer",
    "Message",
    "ParseProblem",
    "Qwen3Chat",
    "SentencePieceTokenizer",
    "TextError",
    "TinyChat",
    "Tokenizer",
    "ToolCall",
    "Tools",
    "after_code",
    "after_thinking",
    "canonical_action",
    "code_block",
    "last_boxed",
    "parse_design",
    "tools_text",
    "train_sentencepiece",
    "well_formed",
]
