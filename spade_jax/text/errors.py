"""What this package raises."""


class TextError(ValueError):
    """Text, a token or a message that cannot be handled as asked; says what was wrong."""
