import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from spade_jax.text import HFTokenizer, TextError
from tests.text.conftest import CHATML_ADDED, CHATML_SPECIAL
from tests.text.reference import reference_ids

GOLDEN = json.loads((Path(__file__).parent / "golden" / "qwen3.json").read_text("utf-8"))
PLAIN = GOLDEN["plain"]

MARKS = [*CHATML_SPECIAL, *CHATML_ADDED, "\ufffd", "\u0120", "\n", " ", "\x00", "<|im_", "end|>"]
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.sampled_from(MARKS)).map("".join),
)


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: ascii(case["text"][:12]))
def test_ids_equal_those_of_qwen3(qwen3_tokenizer, case):
    assert qwen3_tokenizer.encode(case["text"]) == case["ids_no_special"]


def test_special_ids_of_qwen3_are_found_by_their_spelling(qwen3_tokenizer):
    for spelling, index in GOLDEN["special_ids"].items():
        if spelling.startswith("<|"):
            assert qwen3_tokenizer.special(spelling) == index
        else:
            assert qwen3_tokenizer.encode(spelling) == [index]
    assert qwen3_tokenizer.vocab_size == 151_669


@given(text=texts)
def test_decode_undoes_encode_and_no_text_makes_a_special_id(chatml_tokenizer, text):
    ids = chatml_tokenizer.encode(text)
    assert chatml_tokenizer.decode(ids) == text
    assert not set(map(chatml_tokenizer.special, CHATML_SPECIAL)).intersection(ids)
    assert all(0 <= token < chatml_tokenizer.vocab_size for token in ids)


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|")))
def test_ids_equal_those_of_the_library_where_nothing_is_special(
    chatml_path, chatml_tokenizer, text
):
    assert chatml_tokenizer.encode(text) == reference_ids(chatml_path, text)


@pytest.mark.parametrize("spelling", CHATML_ADDED)
def test_an_added_token_that_is_not_special_is_text_and_one_id(chatml_tokenizer, spelling):
    (index,) = chatml_tokenizer.encode(spelling)
    assert chatml_tokenizer.decode([index]) == spelling == chatml_tokenizer.piece(index)
    with pytest.raises(TextError, match=f"{spelling}.*known are pad, end, <.endoftext"):
        chatml_tokenizer.special(spelling)


@given(text=st.text(st.characters(categories=["Cs", "Ll", "Zs"])))
def test_lone_surrogates_come_back_as_the_replacement_character(chatml_tokenizer, text):
    expected = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)
    assert chatml_tokenizer.decode(chatml_tokenizer.encode(text)) == expected


@given(data=st.data())
def test_any_ids_decode_to_text_that_utf8_can_hold(chatml_tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, chatml_tokenizer.vocab_size - 1), max_size=40))
    text = chatml_tokenizer.decode(ids)
    assert text.encode("utf-8").decode("utf-8") == text
    assert not any(spelling in chatml_tokenizer.decode([token])
                   for token in ids for spelling in CHATML_SPECIAL)  # fmt: skip


def test_special_ids_are_dropped_by_decode_and_found_by_name(chatml_tokenizer):
    pad, start, end = map(chatml_tokenizer.special, CHATML_SPECIAL)
    assert (chatml_tokenizer.special("pad"), chatml_tokenizer.special("end")) == (pad, end)
    mixed = [start, *chatml_tokenizer.encode("ab"), end, *chatml_tokenizer.encode("c"), pad]
    assert chatml_tokenizer.decode(np.asarray(mixed, np.int32)) == "abc"
    assert chatml_tokenizer.piece(start) == "<|im_start|>"


def test_a_pickled_tokenizer_needs_no_file(chatml_path, tmp_path):
    moved = tmp_path / "moved.json"
    moved.write_bytes(chatml_path.read_bytes())
    tokenizer = HFTokenizer(moved, vocab_size=600)
    stored = pickle.dumps(tokenizer)
    moved.unlink()
    again = pickle.loads(stored)
    assert again.encode("a <|im_end|>") == tokenizer.encode("a <|im_end|>")
    assert again.vocab_size == 600
    assert pickle.dumps(again) == stored


def test_rows_of_the_model_beyond_the_file_decode_to_nothing(chatml_path, chatml_tokenizer):
    padded = HFTokenizer(chatml_path, vocab_size=600)
    assert padded.vocab_size == 600
    assert padded.decode([599, *padded.encode("a")]) == "a"
    with pytest.raises(TextError, match=f"has {chatml_tokenizer.vocab_size} ids.*vocab_size=9"):
        HFTokenizer(chatml_path, vocab_size=9)


@pytest.mark.parametrize("token", [-1, 10**12])
def test_an_id_outside_the_vocabulary_is_named(chatml_tokenizer, token):
    with pytest.raises(TextError, match=str(token)):
        chatml_tokenizer.decode([token])


def test_missing_and_foreign_files_are_named(tmp_path):
    with pytest.raises(TextError, match="absent.json"):
        HFTokenizer(tmp_path / "absent.json")
    for noise in (b"noise", b"\xff\xfe", b"{}"):
        (tmp_path / "noise.json").write_bytes(noise)
        with pytest.raises(TextError, match="noise.json.*not a tokenizer.json"):
            HFTokenizer(tmp_path / "noise.json")


def test_a_file_whose_unknown_token_is_special_is_refused(tmp_path):
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    backend.add_special_tokens(["<unk>"])
    backend.save(str(tmp_path / "words.json"))
    with pytest.raises(TextError, match="words.json.*special token of the text"):
        HFTokenizer(tmp_path / "words.json")
