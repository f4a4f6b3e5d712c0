"""What a run speaks with: one model and how it reads and writes."""

import dataclasses
from collections.abc import Callable, Mapping

from spade_jax import models
from spade_jax.text import ChatRenderer, Tokenizer


@dataclasses.dataclass(frozen=True)
class Language:
    """A model, new or public, with its tokenizer and chat template.

    Attributes:
        chats: "designer" and "agent", which may differ in whether they think.
        params: makes the parameters that it starts from, fp32 and placed on the mesh. A run that
            goes on from a checkpoint never asks for them.
    """

    model: models.ModelConfig
    tokenizer: Tokenizer
    chats: Mapping[str, ChatRenderer]
    params: Callable[[], models.Params]
