"""Validation of generated environment programs."""

from sandbox_runner.validation.validate import validate

__all__ = ["validate"]
