"""A reversible spelling of text in which no character is special to sentencepiece.

Sentencepiece folds the space and U+2581 into one, keeps U+2585 and the tab for itself and learns no
piece that ends in a space. So the 33 characters up to and including the space are spelled with the
pictures Unicode has of them (space is U+2420, newline U+240A), and a character that would then be
ambiguous is spelled as ESCAPE and four hex digits.
"""

import re

ESCAPE = "\u2426"
_PICTURES = {code: 0x2400 + code for code in range(0x21)}
_AMBIGUOUS = (*_PICTURES.values(), ord(ESCAPE), 0x2581, 0x2585)
_SURROGATES = range(0xD800, 0xE000)

_SPELL = (
    {code: chr(picture) for code, picture in _PICTURES.items()}
    | {code: f"{ESCAPE}{code:04x}" for code in _AMBIGUOUS}
    | dict.fromkeys(_SURROGATES, "\ufffd")
)
_READ = {picture: chr(code) for code, picture in _PICTURES.items()}
_ESCAPED = re.compile(ESCAPE + "(" + "|".join(f"{code:04x}" for code in _AMBIGUOUS) + ")")


def spell(text: str) -> str:
    """What sentencepiece gets to see. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    return text.translate(_SPELL)


def read(spelled: str) -> str:
    """Undoes `spell`; whatever `spell` never writes (a model samples anything) stays as it is."""
    parts = _ESCAPED.split(spelled)
    for index, part in enumerate(parts):
        parts[index] = chr(int(part, 16)) if index % 2 else part.translate(_READ)
    return "".join(parts)
