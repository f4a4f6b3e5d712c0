"""Tables in Markdown, a line at a time."""

from collections.abc import Sequence


def print_header(cells: Sequence[str]) -> None:
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|", flush=True)


def print_row(cells: Sequence) -> None:
    text = [cell if isinstance(cell, str | int) else f"{cell:.3g}" for cell in cells]
    print("| " + " | ".join(map(str, text)) + " |", flush=True)
