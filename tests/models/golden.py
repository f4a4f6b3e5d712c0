"""The tiny Hugging Face checkpoints in golden/, made with torch and transformers, fp32."""

import dataclasses
import json
import pathlib

import numpy as np

from spade_jax import models
from spade_jax.models import convert, hf
from spade_jax.models.sources import SafetensorsFolder

FOLDER = pathlib.Path(__file__).with_name("golden")
NAMES = ("llama_tied", "qwen3_tied", "qwen3_untied", "qwen3_moe")
DIALECTS = ("config.json", "config_v5.json")  # the hub's, and that of transformers 5


def raw_config(name: str, dialect: str = DIALECTS[0]) -> dict:
    return json.loads((FOLDER / name / dialect).read_text())


def load(
    name: str, dialect: str = DIALECTS[0], **overrides
) -> tuple[models.ModelConfig, models.Params, dict]:
    """`(config, params, golden arrays)` of one checkpoint."""
    config = hf.config_from_hf(raw_config(name, dialect))
    params = convert.load(SafetensorsFolder(FOLDER / name), config)
    golden = dict(np.load(FOLDER / name / "golden.npz"))
    return dataclasses.replace(config, **overrides), params, golden
