import gzip
import json

import pytest

from spade_jax.grounding import CorpusError, open_corpus
from spade_jax.grounding.jsonl import JsonlCorpus

ROWS = [
    {"id": "first", "text": "alpha beta", "topic": "greek"},
    {"orig_doc": "gamma é\n delta", "source": {"page": 3}},
    {"id": 7, "text": "", "orig_doc": "epsilon"},
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_text_or_orig_doc_is_the_text_and_other_keys_are_metadata(tmp_path):
    corpus = JsonlCorpus([write(tmp_path / "a.jsonl", ROWS)])
    first, second, third = (corpus[i] for i in range(3))
    assert (first.id, first.text, first.metadata) == ("first", "alpha beta", {"topic": "greek"})
    assert second.text == "gamma é\n delta"
    assert (second.id, second.metadata) == ("a.jsonl:2", {"source": {"page": 3}})
    assert (third.id, third.text, third.metadata) == ("7", "epsilon", {})


def test_bad_lines_are_counted_by_reason_and_left_out(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"text": "one"}\n{"text": \n\n[1]\n{"text": "  "}\n{"text": 5}\n{"text": "\xff"}\n'
        b'{"text": "two"}'
    )
    corpus = JsonlCorpus([path])
    assert [corpus[i].text for i in range(len(corpus))] == ["one", "two"]
    assert corpus.skipped == {"not a JSON object": 3, "without text": 2}
    assert corpus[1].id == "a.jsonl:8"


@pytest.mark.parametrize("content", ["", "\n\n", "not json\n", '{"body": "x"}\n'])
def test_an_empty_corpus_is_an_error_that_says_what_was_expected(tmp_path, content):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(CorpusError, match="non-empty string under text or orig_doc"):
        open_corpus("jsonl:a.jsonl", base_dir=tmp_path)


def test_gzip_files_read_like_plain_ones(tmp_path):
    plain = write(tmp_path / "a.jsonl", ROWS)
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    one, other = JsonlCorpus([plain]), JsonlCorpus([packed])
    assert [one[i].text for i in range(3)] == [other[i].text for i in range(3)]


def test_a_damaged_gzip_file_is_named(tmp_path):
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"text": "one"}\n' * 50)[:-12])
    with pytest.raises(CorpusError, match="cannot read .*a.jsonl.gz"):
        JsonlCorpus([packed])


def test_a_glob_is_read_in_sorted_order(tmp_path):
    write(tmp_path / "b.jsonl", [{"text": "three"}])
    write(tmp_path / "a.jsonl", [{"text": "one"}, {"text": "two"}])
    corpus = open_corpus("jsonl:*.jsonl", base_dir=tmp_path)
    assert [corpus[i].text for i in range(len(corpus))] == ["one", "two", "three"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CorpusError, match="no file at .*absent.jsonl"):
        open_corpus("jsonl:absent.jsonl", base_dir=tmp_path)


def test_a_file_that_changed_after_opening_is_an_error(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"text": "one"}, {"text": "two"}])
    corpus = JsonlCorpus([path])
    path.write_text('{"text": "another beginning"}\n')
    with pytest.raises(CorpusError, match="changed while it was open"):
        corpus[1]


def test_negative_positions_are_refused(tmp_path):
    corpus = JsonlCorpus([write(tmp_path / "a.jsonl", ROWS)])
    with pytest.raises(IndexError):
        corpus[-1]


def test_twenty_thousand_lines_are_twenty_thousand_documents(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"text": "word " * 100}] * 20_000)
    assert len(JsonlCorpus([path])) == 20_000
