"""A chat of letters, and a model that can spell them."""

from spade_jax import models

CONFIG = models.preset("tiny", num_layers=1, vocab_size=64, d_model=32, head_dim=8, d_ff=32)
END = 2


class LetterChat:
    """Ids are letters; every reply ends with id 2, every observation opens with id 1."""

    stop_ids = truncate_suffix = (END,)

    def open(self, messages, tools=()):
        return [1, *(3 + len(message.content) % 50 for message in messages), 1]

    def extend(self, messages):
        return [1, *(3 + len(message.content) % 50 for message in messages), 1]

    def resume(self, row, messages, tools=()):
        return len(row), self.extend(messages[-1:])

    def decode(self, tokens):
        return " ".join(str(token) for token in tokens if token != END)


class BriefChat(LetterChat):
    """Replies of some ten letters: a random model seldom says one certain id."""

    stop_ids = tuple(range(2, 9))
