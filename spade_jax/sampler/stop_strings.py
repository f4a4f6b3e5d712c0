"""Where sampled text first contains a stop string."""

from collections.abc import Callable, Sequence

BYTES = 4  # most tokens that spell one character


def stop_at(
    tokens: Sequence[int],
    checked: int,
    strings: Sequence[str],
    decode: Callable[[Sequence[int]], str],
) -> int | None:
    """The least number of tokens whose text has one of the strings, or None.

    Args:
        checked: so many tokens are known to have none. Only the tail that can complete a string is
            decoded, so that a long turn costs linear time.
    """
    if not strings:
        return None
    first = max(0, checked - BYTES * max(map(len, strings)))

    def found(count: int) -> bool:
        text = decode(tokens[first:count])
        return any(string in text for string in strings)

    if not found(len(tokens)):
        return None
    return next(count for count in range(checked + 1, len(tokens) + 1) if found(count))
