"""The one error that a launcher shows its user."""


class LaunchError(ValueError):
    """A launch is impossible as asked; the message names the flag and what was expected."""
