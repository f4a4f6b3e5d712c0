"""The API key of a server: sent, and shown nowhere."""

import dataclasses
import os
import re

from spade_jax.remote.errors import RemoteSetupError


@dataclasses.dataclass(frozen=True)
class Key:
    """`value` is printable ASCII, or empty: there is none."""

    value: str = dataclasses.field(default="", repr=False)

    def hidden_in(self, text: str) -> str:
        """`text` with "[key]" for the key, also where JSON or `repr` put backslashes into it.
        Cut a text afterwards: a part of the key is not found."""
        if not self.value:
            return text
        return re.sub(r"\\*".join(map(re.escape, self.value)), "[key]", text)


def read_key(variable: str) -> Key:
    """The key that an environment variable holds, without the line end that mounted secrets have.

    Raises:
        RemoteSetupError: it holds none, or one that no request can carry.
    """
    if not variable:
        return Key()
    value = os.environ.get(variable, "").strip()
    if not (value and value.isascii() and value.isprintable()):
        raise RemoteSetupError(
            f"remote.key_variable={variable!r}: expected an environment variable that holds the"
            " key, in printable ASCII"
        )
    return Key(value)
