"""`tfds:NAME:SPLIT[:FIELD]`: a prepared TensorFlow Datasets dataset, read without TensorFlow."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from spade_jax.grounding.corpus import CorpusError, Document, checked_index

_SPEC = re.compile(
    r"(?P<name>(?:gs://)?[^:]+(?::\d+\.\d+\.\d+)?)"
    r":(?P<split>[\w+-]+(?:\[[^\]]*\])?)"
    r"(?::(?P<field>\w+))?"
)


class TfdsCorpus:
    """Examples of one split; `field` is the text and the other scalar features are metadata."""

    def __init__(self, source: Any, name: str, split: str, field: str):
        """`source` is a `tfds.data_source`. Raises CorpusError for a wrong field or no example."""
        if not len(source):
            raise CorpusError(f"tfds: split {split!r} of {name} has no examples")
        first = source[0]
        if not isinstance(first, dict) or not isinstance(first.get(field), (str, bytes)):
            texts = [key for key, value in first.items() if isinstance(value, (str, bytes))]
            raise CorpusError(f"tfds: {name} has no text field {field!r}; its text fields are "
                              f"{texts}, to be named as tfds:NAME:SPLIT:FIELD")
        self._source = source
        self._prefix = f"{name}:{split}"
        self._field = field

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Document:
        index = checked_index(index, len(self))
        example = self._source[index]
        metadata = {key: _scalar(value) for key, value in example.items() if key != self._field}
        return Document(
            id=f"{self._prefix}:{index}",
            text=_scalar(example[self._field]),
            metadata={key: value for key, value in metadata.items() if value is not None},
        )


def open_source(argument: str, base_dir: Path) -> TfdsCorpus:
    """`argument` is NAME:SPLIT[:FIELD], the field being `text` by default.

    NAME is a registered dataset, `wikipedia/20230601.en` or with a version `ag_news_subset:1.0.0`,
    looked up in TFDS's own data directory; or the folder of a prepared version (the one with
    `dataset_info.json`), relative to `base_dir`. SPLIT may be a slice, `train[:10%]`. Nothing is
    downloaded.
    """
    match = _SPEC.fullmatch(argument)
    if match is None:
        raise CorpusError(f"tfds:{argument}: expected tfds:NAME:SPLIT[:FIELD]")
    name, split, field = match["name"], match["split"], match["field"] or "text"
    folder = name if name.startswith("gs://") else str(base_dir / name)
    return TfdsCorpus(_data_source(name, folder, split), name, split, field)


def _data_source(name: str, folder: str, split: str) -> Any:
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise CorpusError(f"tfds:{name}: pip install tensorflow-datasets importlib_resources "
                          f"array_record ({error})") from error
    try:
        if folder.startswith("gs://") or Path(folder, "dataset_info.json").is_file():
            return tfds.builder_from_directory(folder).as_data_source(split=split)
        return tfds.data_source(name, split=split, download=False)
    # What tfds raises for: an unknown name or split, nothing prepared, another file format.
    except (LookupError, NotImplementedError, ValueError, OSError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise CorpusError(
            f"tfds: cannot read split {split!r} of {name}: {reason}\n"
            f"Prepare it once, on a machine with network access:\n"
            f"    tfds build {name} --file_format=array_record --data_dir=DIR\n"
            f"(many datasets need TensorFlow for this step, reading does not), then name the "
            f"folder of the version: tfds:DIR/{name.replace(':', '/')}/VERSION:{split}"
        ) from error


def _scalar(value: Any) -> Any:
    """Text, number or bool as a plain Python value; None for arrays and nested features."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (str, bool, int, float)) else None
