import json
import sys

import numpy as np
import pytest

from spade_jax.grounding import CorpusError, DocumentSampler, open_corpus

tfds = pytest.importorskip("tensorflow_datasets")

ROWS = [
    {"text": "a lift with eight floors", "title": "lift", "views": 3, "tags": ["a", "b"]},
    {"text": "café", "title": "place", "views": 4, "tags": []},
    {"text": "a third", "title": "three", "views": 5, "tags": []},
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A dataset as `tfds build --file_format=array_record` leaves it, written by hand."""
    from array_record.python.array_record_module import ArrayRecordWriter
    from tensorflow_datasets.core.example_serializer import ExampleSerializer

    base = tmp_path_factory.mktemp("tfds")
    folder = base / "tiny" / "1.0.0"
    folder.mkdir(parents=True)
    features = tfds.features.FeaturesDict({
        "text": tfds.features.Text(),
        "title": tfds.features.Text(),
        "views": tfds.features.Scalar(np.int64),
        "tags": tfds.features.Sequence(tfds.features.Text()),
    })
    serializer = ExampleSerializer(features.get_serialized_info())
    writer = ArrayRecordWriter(str(folder / "tiny-train.array_record-00000-of-00001"),
                               "group_size:1")
    for row in ROWS:
        writer.write(serializer.serialize_example(features.encode_example(row)))
    writer.close()
    features.save_config(str(folder))
    (folder / "dataset_info.json").write_text(json.dumps({
        "name": "tiny", "version": "1.0.0", "fileFormat": "array_record",
        "splits": [{
            "name": "train", "shardLengths": [str(len(ROWS))], "numBytes": "100",
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        }],
    }))
    return base


def test_a_prepared_folder_is_read_with_its_scalar_features(prepared):
    corpus = open_corpus("tfds:tiny/1.0.0:train", base_dir=prepared)
    assert [corpus[i].text for i in range(len(corpus))] == [row["text"] for row in ROWS]
    assert corpus[0].metadata == {"title": "lift", "views": 3}
    assert corpus[1].id == "tiny/1.0.0:train:1"


def test_tensorflow_is_not_imported(prepared):
    open_corpus("tfds:tiny/1.0.0:train", base_dir=prepared)[0]
    assert "tensorflow" not in sys.modules


def test_a_split_may_be_a_slice_and_the_field_may_be_named(prepared):
    corpus = open_corpus("tfds:tiny/1.0.0:train[1:]:title", base_dir=prepared)
    assert [corpus[i].text for i in range(len(corpus))] == ["place", "three"]
    assert "text" in corpus[0].metadata


def test_a_registered_name_with_a_version_is_looked_up_in_the_data_directory(
    prepared, monkeypatch
):
    seen = {}

    def data_source(name, split, download):
        seen.update(name=name, split=split, download=download)
        return tfds.builder_from_directory(str(prepared / "tiny/1.0.0")).as_data_source(split)

    monkeypatch.setattr(tfds, "data_source", data_source)
    corpus = open_corpus("tfds:tiny/en:1.0.0:train[:1]:title", base_dir=prepared / "elsewhere")
    assert seen == {"name": "tiny/en:1.0.0", "split": "train[:1]", "download": False}
    assert corpus[0].text == "lift"


def test_the_sampler_draws_from_it(prepared):
    sampler = DocumentSampler(open_corpus("tfds:tiny/1.0.0:train", base_dir=prepared), 0, 2)
    assert {sampler.next().text for _ in range(3)} == {"a lift", "café", "a third"}


@pytest.mark.parametrize("name", ["no_such_dataset", "ag_news_subset"])
def test_a_missing_dataset_says_how_to_prepare_it(tmp_path, monkeypatch, name):
    source = tfds.data_source
    monkeypatch.setattr(tfds, "data_source",
                        lambda *args, **kwargs: source(*args, data_dir=tmp_path, **kwargs))
    with pytest.raises(CorpusError, match=f"tfds build {name} --file_format=array_record"):
        open_corpus(f"tfds:{name}:train", base_dir=tmp_path)


@pytest.mark.parametrize(("spec", "message"), [
    ("tfds:tiny", "expected tfds:NAME:SPLIT"),
    ("tfds:tiny/1.0.0:test", "cannot read split 'test' of tiny/1.0.0: Unknown split"),
    ("tfds:tiny/1.0.0:train:body", r"no text field 'body'; .* are \['text', 'title'\]"),
    ("tfds:tiny/1.0.0:train:views", "no text field 'views'"),
])
def test_a_bad_spec_is_refused_with_its_reason(prepared, spec, message):
    with pytest.raises(CorpusError, match=message):
        open_corpus(spec, base_dir=prepared)
