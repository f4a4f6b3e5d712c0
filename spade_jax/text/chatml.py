"""ChatML as SmolLM2 speaks it, and the frame that it shares with Qwen3's dialect.

A conversation is frames: the special id that starts one, the text of role and content encoded in
one piece, the special id that ends it; between two frames a newline. Each frame's text is encoded
by itself, so the ids are those of the original template wherever no text spells a special token.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spade_jax.text.chat import Message, check_extension, check_opening, check_plain
from spade_jax.text.errors import TextError
from spade_jax.text.tokenizer import Tokenizer

TEMPLATES = Path(__file__).parent / "templates"

Tools = Sequence[Mapping[str, Any]]


class ChatML:
    """SmolLM2's template; a conversation without a system message gets SmolLM2's own.

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

        Raises TextError for no messages, or for tools where the template has no place for them.
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
        """Raises TextError as `check_extension` does. What was sampled stays as it is, also where
        the template would drop or rewrite it: `resume` tells."""
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
        """`(kept, tail)`: the next prompt is `row[:kept] + tail`, the rendering of `messages`.

        `row` holds the episode's ids so far, `messages` all that was said and what is to be added.
        A turn that the template leaves alone keeps the ids that were sampled, even if its text
        would be encoded otherwise. `kept == len(row)`: the episode only grew. Less: from that
        position on the template has changed what the model saw, by dropping thinking for example.
        """
        check_opening(messages)
        frames = [self._frame(body) for body in self._bodies(messages, tools)] + [self._prompt]
        ids, kept = list(map(int, row)), 0
        for number, frame in enumerate(frames):
            new = frame if number == 0 else [*self._between, *frame]
            end = ids.index(self._end, kept) + 1 if self._end in ids[kept:] else len(ids)
            if not self._same(ids[kept:end], new):
                kept_of_new = _common_prefix(ids[kept:end], new)
                return kept + kept_of_new, self._joined([new[kept_of_new:], *frames[number + 1 :]])
            kept = end
        return kept, []

    def _bodies(self, messages: Sequence[Message], tools: Tools) -> list[str]:
        """The text of each frame of a whole conversation."""
        if tools:
            raise TextError("this template has no place for tools")
        if messages[0].role != "system":
            messages = [Message("system", self._default_system), *messages]
        return self._turns(messages)

    def _turns(self, messages: Sequence[Message]) -> list[str]:
        """The text of each frame of some messages that do not open the conversation."""
        check_plain(messages)
        return [f"{message.role}\n{message.content}" for message in messages]

    def _frame(self, body: str) -> list[int]:
        return [self._start, *self._tokenizer.encode(body), self._end]

    def _joined(self, frames: Sequence[list[int]]) -> list[int]:
        first, *others = frames
        return first + [token for frame in others for token in (*self._between, *frame)]

    def _same(self, old: list[int], new: list[int]) -> bool:
        """Whether a frame that may have been sampled has the text of one that was encoded."""
        if old == new:
            return True
        if self._start not in new or old[-1:] != new[-1:]:
            return False
        head = new.index(self._start) + 1
        text = self._tokenizer.decode(old[head:-1])
        return old[:head] == new[:head] and self._tokenizer.encode(text) == new[head:-1]


def _common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))
