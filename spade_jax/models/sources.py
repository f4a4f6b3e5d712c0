"""Where a checkpoint's tensors come from: one at a time, under Hugging Face's names."""

import contextlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import ml_dtypes  # noqa: F401  registers bfloat16 with numpy, for safetensors
import numpy as np

from spade_jax import extras
from spade_jax.models.config import ModelError

DTYPES = ("BF16", "F16", "F32")
WEIGHTS, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"


class TensorSource(Protocol):
    """A checkpoint that is read lazily.

    Attributes:
        config: what its `config.json` says or would say.
    """

    config: Mapping[str, Any]

    def names(self) -> Iterable[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str) -> np.ndarray:
        """The tensor in the precision in which it is stored (bf16: `ml_dtypes.bfloat16`)."""
        ...


class SafetensorsFolder:
    """A `TensorSource`: a folder as `save_pretrained` writes it, in one file or in shards.

    Raises:
        ModelError: a file is missing or broken, a tensor is not in fp32, fp16 or bf16, or the
            package safetensors is missing.
    """

    def __init__(self, folder: str | pathlib.Path):
        self._library = extras.require("safetensors", "hf", ModelError)
        self._folder = pathlib.Path(folder)
        self._files: dict[str, Any] = {}
        self.config = read_json(self._folder / CONFIG)
        if (self._folder / INDEX).exists():
            self._file_of = dict(read_json(self._folder / INDEX).get("weight_map", {}))
            for name, file in self._file_of.items():
                if name not in self._open(file).keys():  # noqa: SIM118  not a mapping
                    raise ModelError(f"{INDEX} puts {name} into {file}, which lacks it")
        else:
            self._file_of = dict.fromkeys(self._open(WEIGHTS).keys(), WEIGHTS)

    def names(self) -> Iterable[str]:
        return self._file_of.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._slice(name).get_shape())

    def read(self, name: str) -> np.ndarray:
        dtype = self._slice(name).get_dtype()
        if dtype not in DTYPES:
            raise ModelError(f"{name} is stored as {dtype}; expected one of {', '.join(DTYPES)}")
        with self._broken(name):
            return self._open(self._file_of[name]).get_tensor(name)

    def _slice(self, name: str):
        with self._broken(name):
            return self._open(self._file_of[name]).get_slice(name)

    def _open(self, file: str):
        """The file, which stays open."""
        if file not in self._files:
            path = self._folder / file
            if pathlib.Path(file).name != file or not path.is_file():
                raise ModelError(f"{path} is missing")
            with self._broken(str(path)):
                # A map into memory would count every page that was ever read as ours.
                opened = self._library.safe_open(path, framework="np", backend="pread")
                self._files[file] = opened
        return self._files[file]

    @contextlib.contextmanager
    def _broken(self, what: str) -> Iterator[None]:
        try:
            yield
        except (self._library.SafetensorError, OSError) as error:
            raise ModelError(f"{what} cannot be read: {error}") from error


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        ModelError: it is missing, or not an object.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(raw, dict):
        raise ModelError(f"{path} must hold a JSON object")
    return raw
