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
    assert [d.text for d in map(open_corpus("jsonl:a.jsonl", folder).__getitem__, range(3))] == [
        "a0", "a1", "a2"]


def test_a_sum_is_a_mixture_with_its_weights(folder):
    corpus = open_corpus("0.25*jsonl:a.jsonl + jsonl:b.jsonl", folder)
    assert isinstance(corpus, Mixture)
    assert corpus.weights == (0.25, 1.0)
    assert (corpus[2].text, corpus[3].text) == ("a2", "b0")


@pytest.mark.parametrize(("spec", "message"), [
    ("", "expected KIND"),
    ("web", "unknown corpus 'web'; expected one of bundled, jsonl, machine, tfds"),
    ("jsonl:", "expected jsonl:PATH"),
    ("1.2.3 * bundled", "'1.2.3' is not a weight"),
    ("0 * jsonl:a.jsonl + jsonl:b.jsonl", "weights must be positive"),
    ("jsonl:a.jsonl + ", "expected KIND"),
    ("bundled:x", "takes no argument"),
])
def test_a_bad_spec_is_refused_with_its_reason(folder, spec, message):
    with pytest.raises(CorpusError, match=message.replace("*", r"\*")):
        open_corpus(spec, folder)


def test_bundled_reads_the_packaged_file_with_topics(monkeypatch, tmp_path):
    path = tmp_path / "bundled.jsonl"
    path.write_text('{"id": "lift-1", "text": "A lift.", "topic": "lifts"}\n')
    monkeypatch.setattr(bundled, "PATH", path)
    document = open_corpus("bundled")[0]
    assert (document.id, document.metadata) == ("lift-1", {"topic": "lifts"})


def test_sources_that_are_not_named_are_not_imported(folder):
    code = (
        "import sys; from spade_jax.grounding import open_corpus\n"
        "open_corpus('jsonl:a.jsonl', sys.argv[1])\n"
        "print([m for m in ('tensorflow', 'tensorflow_datasets', 'spade_jax.grounding.machine')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True,
                          text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
