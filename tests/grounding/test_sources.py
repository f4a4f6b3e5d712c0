import json
import subprocess
import sys

import pytest

from spade_jax.grounding import CorpusError, Mixture, bundled, open_corpus


@pytest.fixture
def folder(tmp_path):
    for name in "ab":
        rows = [{"text": f"{name}{i}"} for i in range(3)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return tmp_path


def test_a_single_source_is_opened_as_itself(folder):
    corpus = open_corpus("jsonl:a.jsonl", base_dir=folder)
    assert [corpus[i].text for i in range(len(corpus))] == ["a0", "a1", "a2"]


def test_several_sources_are_a_mixture_with_their_weights(folder):
    corpus = open_corpus(("jsonl:a.jsonl", "jsonl:b.jsonl"), (0.25, 1), folder)
    assert isinstance(corpus, Mixture)
    assert corpus.weights == (0.25, 1.0)
    assert (corpus[2].text, corpus[3].text) == ("a2", "b0")


def test_without_weights_every_source_counts_alike(folder):
    assert open_corpus(["jsonl:a.jsonl", "jsonl:b.jsonl"], base_dir=folder).weights == (1.0, 1.0)


@pytest.mark.parametrize(("sources", "weights", "message"), [
    ((), None, "one weight per part, got 0 parts"),
    ("", None, "unknown corpus ''; expected KIND"),
    ("web", None, "unknown corpus 'web'; .* one of bundled, jsonl, machine, tfds"),
    ("jsonl:", None, "expected jsonl:PATH"),
    ("jsonl:a.jsonl", (0,), "weights must be positive"),
    (("jsonl:a.jsonl", "jsonl:b.jsonl"), (1,), "one weight per part"),
    ("bundled:x", None, "bundled:x: expected bundled or bundled:tool_use"),
])
def test_a_bad_request_is_refused_with_its_reason(folder, sources, weights, message):
    with pytest.raises(CorpusError, match=message):
        open_corpus(sources, weights, folder)


def test_bundled_reads_the_packaged_file_with_topics(monkeypatch, tmp_path):
    path = tmp_path / "bundled.jsonl"
    path.write_text('{"id": "lift-1", "text": "A lift.", "topic": "lifts"}\n')
    monkeypatch.setattr(bundled, "PATH", path)
    document = open_corpus("bundled")[0]
    assert (document.id, document.metadata) == ("lift-1", {"topic": "lifts"})


def test_the_packaged_corpus_is_whole():
    corpus = open_corpus("bundled")
    documents = [corpus[i] for i in range(len(corpus))]
    assert corpus.skipped == {}
    assert len({document.id for document in documents}) == len(documents) >= 200
    assert all(document.metadata["topic"] for document in documents)


def test_sources_that_are_not_named_are_not_imported(folder):
    code = (
        "import sys; from spade_jax.grounding import open_corpus\n"
        "open_corpus('jsonl:a.jsonl', base_dir=sys.argv[1])\n"
        "print([m for m in ('tensorflow', 'tensorflow_datasets', 'spade_jax.grounding.machine')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True,
                          text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
