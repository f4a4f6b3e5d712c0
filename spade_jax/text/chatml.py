"""ChatML as SmolLM2 speaks it, and the frame that it shares with Qwen3's dialect.

A conversation is frames: the special id that starts one, the text of role and content encoded in
one piece, the special id that ends it; between two frames a newline. Each frame's text is encoded
by itself, so the ids are those of the original template wherever no text spells a special token.
"""

from collections.abc import Sequence

from spade_jax.text.chat import (
    Message,
    after_reply,
    check_extension,
    check_opening,
    check_plain,
    with_tools,
)
from spade_jax.text.errors import TextError
from spade_jax.text.tokenizer import Tokenizer
from spade_jax.text.tool_schemas import TEMPLATES, Tools


class ChatML:
    """SmolLM2's template; a conversation without a system message gets SmolLM2's own. It knows no
    tools: those are described after the system message in words of ours.

    The tokenizer must have the special tokens `<|im_start|>` and `<|im_end|>`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._start = tokenizer.special("<|im_start|>")
        self._end = tokenizer.special("<|im_end|>")
        self._between = tokenizer.encode("\n")
        self._prompt = [self._start, *tokenizer.encode("assistant\n")]
        self._default_system = (TEMPLATES / "smollm2_system.txt").read_text("utf-8").rstrip("\n")

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return (self._end,)

    @property
    def truncate_suffix(self) -> tuple[int, ...]:
        return (self._end,)

    def render(
        self, messages: Sequence[Message], tools: Tools = (), add_generation_prompt: bool = True
    ) -> list[int]:
        """A whole conversation as the original template has it: `tools` are schemas, JSON objects.

        Raises TextError for no messages.
        """
        if not messages:
            raise TextError("there is no message to render")
        frames = [self._frame(body) for body in self._bodies(messages, tools)]
        last = self._prompt if add_generation_prompt else []
        return self._joined([*frames, last])

    def open(self, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
        """Raises TextError as `check_opening` and `render` do."""
        check_opening(messages)
        return self.render(messages, tools)

    def extend(self, messages: Sequence[Message]) -> list[int]:
        """Raises TextError as `check_extension` does."""
        check_extension(messages)
        frames = [self._frame(body) for body in self._turns(messages)]
        return self._joined([[], *frames, self._prompt])

    def reply(self, content: str) -> list[int]:
        return [*self._tokenizer.encode(content), self._end]

    def decode(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(tokens)

    def resume(
        self, row: Sequence[int], messages: Sequence[Message], tools: Tools = ()
    ) -> tuple[int, list[int]]:
        """Nothing is ever rewritten."""
        return len(row), self.extend(after_reply(messages))

    def _bodies(self, messages: Sequence[Message], tools: Tools) -> list[str]:
        """The text of each frame of a whole conversation."""
        if messages[0].role != "system":
            messages = [Message("system", self._default_system), *messages]
        return self._turns(with_tools("chatml", messages, tools, "\n\n"))

    def _turns(self, messages: Sequence[Message]) -> list[str]:
        """The text of each frame of some messages that do not open the conversation."""
        check_plain(messages)
        return [f"{message.role}\n{message.content}" for message in messages]

    def _frame(self, body: str) -> list[int]:
        return [self._start, *self._tokenizer.encode(body), self._end]

    def _joined(self, frames: Sequence[list[int]]) -> list[int]:
        first, *others = frames
        return first + [token for frame in others for token in (*self._between, *frame)]
