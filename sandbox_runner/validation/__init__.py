"""Validation of generated environment programs."""

from sandbox_runner.validation.probes import secret_of, shows
from sandbox_runner.validation.validate import validate

__all__ = ["secret_of", "shows", "validate"]
