"""A reversible spelling of any text in 97 characters, none of them special to sentencepiece.

A small vocabulary has no room for 256 byte pieces, and sentencepiece folds the space and U+2581
into one, keeps the tab and U+2585 for itself and learns no piece that ends in a space. So printable
ASCII stands for itself, space and newline are spelled with their Unicode pictures, and every other
character is ESCAPE, its code in base 16 with the letters a to p for digits, and a semicolon. A
tokenizer that holds ALPHABET needs no fallback, and merges make one token of a common escape.
"""

import re

SPACE, NEWLINE, ESCAPE = "\u2420", "\u240a", "\u2426"
ALPHABET = "".join(map(chr, range(0x21, 0x7F))) + SPACE + NEWLINE + ESCAPE

_REPLACEMENT = 0xFFFD
_DIGITS, _LETTERS = "0123456789abcdef", "abcdefghijklmnop"
_TO_LETTERS = str.maketrans(_DIGITS, _LETTERS)
_TO_DIGITS = str.maketrans(_LETTERS, _DIGITS)
_OTHER = re.compile(r"[^\n -~]")
_ESCAPED = re.compile(ESCAPE + "([a-p]{1,6});")


def spell(text: str) -> str:
    """`text` in ALPHABET. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    return _OTHER.sub(_escape, text).replace(" ", SPACE).replace("\n", NEWLINE)


def read(spelled: str) -> str:
    """Undoes `spell`; whatever `spell` never writes (a model samples anything) stays as it is."""
    return _ESCAPED.sub(_unescape, spelled.replace(SPACE, " ").replace(NEWLINE, "\n"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    code = _REPLACEMENT if 0xD800 <= code < 0xE000 else code
    return f"{ESCAPE}{code:x};".translate(_TO_LETTERS)


def _unescape(match: re.Match[str]) -> str:
    code = int(match.group(1).translate(_TO_DIGITS), 16)
    valid = code <= 0x10FFFF and not 0xD800 <= code < 0xE000
    return chr(code) if valid else match.group()
