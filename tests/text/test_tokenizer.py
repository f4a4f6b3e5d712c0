import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from spade_jax.text import (
    NUMBERS,
    SPECIAL_NAMES,
    SentencePieceTokenizer,
    TextError,
    train_sentencepiece,
)

SPECIAL_IDS = set(range(len(SPECIAL_NAMES)))

# What tokenizers use themselves: markers, byte pieces, escapes, pictures of blanks.
LOOK_ALIKES = [f"<|{name}|>" for name in SPECIAL_NAMES] + [
    "<0x41>", "<unk>", "<s>", "</s>", "\u2581", "\u2585", "\u2047", "\u2426", "\u2426ca;",
    "\u2426nkaa;", "ga;", "pppppp;", "\u2420", "\u240a", "\n", "\t", " ", "\r\n", "\x00",
    "\x1b", "\ufffd", "\ufeff", "12", "123", "\U0001f600", "e\u0301", "\ue000",
]  # fmt: skip
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.sampled_from(LOOK_ALIKES)).map("".join),
)


@given(text=texts)
def test_decode_undoes_encode_and_no_text_makes_a_special_id(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not SPECIAL_IDS.intersection(ids)
    assert all(0 <= token < tokenizer.vocab_size for token in ids)


@given(text=st.text(st.characters(categories=["Cs", "Ll", "Zs"])))
def test_lone_surrogates_and_nothing_else_come_back_as_the_replacement_character(tokenizer, text):
    expected = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in text)
    assert tokenizer.decode(tokenizer.encode(text)) == expected


@given(ids=st.lists(st.integers(0, 799), max_size=40))
def test_any_ids_decode_to_text_that_utf8_can_hold(tokenizer, ids):
    text = tokenizer.decode(ids)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert text.encode("utf-8").decode("utf-8") == text


def test_special_ids_are_dropped_by_decode_and_found_by_name(tokenizer):
    ids = [tokenizer.special(name) for name in SPECIAL_NAMES]
    assert ids == sorted(SPECIAL_IDS)
    mixed = [ids[1], *tokenizer.encode("ab"), ids[2], *tokenizer.encode("c")]
    assert tokenizer.decode(mixed) == "abc"
    assert tokenizer.decode(np.asarray(mixed, np.int32)) == "abc"


def test_the_smallest_vocabulary_holds_any_text(tmp_path):
    tokenizer = train_sentencepiece(["abc\n"], tmp_path / "least.model", 194)
    text = "".join(map(chr, range(0x2600))) + "\U0010ffff \U0001f600"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not SPECIAL_IDS.intersection(ids)
    assert len(tokenizer.encode("\U0010ffff")) == 8


def test_a_common_character_outside_ascii_becomes_one_token(tmp_path):
    lines = [f"{left}\u00d7{right}" for left in "abcdef" for right in "ghijkl"]
    tokenizer = train_sentencepiece(lines, tmp_path / "times.model", 197)
    assert len(tokenizer.encode("\u00d7")) == 1


def test_numbers_below_one_hundred_are_one_token_each(tokenizer):
    assert [len(tokenizer.encode(number)) for number in NUMBERS] == [1] * 100
    assert len({tokenizer.encode(number)[0] for number in NUMBERS}) == 100


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("123", ["12", "3"]),
        ("100", ["10", "0"]),
        ("007", ["0", "0", "7"]),
        ("3.14", ["3", ".", "14"]),
        ("q1q", ["q", "1", "q"]),
    ],
)
def test_longer_numbers_split_left_to_right_in_twos(tokenizer, text, pieces):
    assert [tokenizer.piece(token) for token in tokenizer.encode(text)] == pieces


def test_no_number_is_swallowed_by_a_longer_piece(tokenizer, sources):
    numbers = set(NUMBERS)
    for token in range(len(SPECIAL_NAMES), tokenizer.vocab_size):
        piece = tokenizer.piece(token)
        assert piece in numbers or not any(digit in piece for digit in "0123456789")
    assert tokenizer.encode("42")[0] in tokenizer.encode(sources[42 - 3])


def test_an_atomic_line_may_hold_a_number_that_is_atomic_elsewhere(sources, tmp_path):
    line = "        self.turn += 1\n"
    tokenizer = train_sentencepiece(sources, tmp_path / "line.model", 300, (*NUMBERS, line))
    ids = tokenizer.encode(line + "1" + line[:-2] + "2\n")
    assert [tokenizer.piece(token) for token in ids[:2]] == [line, "1"]
    assert ids[0] not in ids[2:]
    assert tokenizer.piece(ids[-2]) == "2"


def test_a_common_line_is_one_token_with_its_indentation_and_newline(tokenizer):
    line = "        self.max_turns = max_turns\n"
    assert [tokenizer.piece(token) for token in tokenizer.encode(line)] == [line]


def test_no_piece_goes_past_a_newline(tokenizer):
    for token in range(tokenizer.vocab_size):
        piece = tokenizer.piece(token)
        assert "\n" not in piece[:-1]


def test_the_same_lines_train_the_same_bytes_in_another_process(model_path, sources, tmp_path):
    program = (
        "import pickle, sys; from spade_jax.text import train_sentencepiece;"
        "train_sentencepiece(pickle.load(sys.stdin.buffer), sys.argv[1], 800)"
    )
    lines = [*sources, "The answer is \\boxed{7}.", "héllo wörld\n"]
    again = tmp_path / "again.model"
    subprocess.run(
        [sys.executable, "-c", program, str(again)],
        input=pickle.dumps(lines), check=True, timeout=60,
    )  # fmt: skip
    first, second = (hashlib.sha256(p.read_bytes()).hexdigest() for p in (model_path, again))
    assert first == second


def test_a_pickled_tokenizer_needs_no_file(model_path, tmp_path):
    moved = tmp_path / "moved.model"
    moved.write_bytes(model_path.read_bytes())
    stored = pickle.dumps(SentencePieceTokenizer(moved))
    moved.unlink()
    assert pickle.loads(stored).encode("random 12") == SentencePieceTokenizer(
        model_path
    ).encode("random 12")


def test_long_lines_are_learned_from_and_not_dropped(tmp_path):
    tokenizer = train_sentencepiece(["zq " * 30_000], tmp_path / "long.model", 197)
    assert len(tokenizer.encode("zq ")) == 1


def test_an_unknown_special_name_is_answered_with_the_known_ones(tokenizer):
    with pytest.raises(TextError, match="'eos'.*pad, bos, end"):
        tokenizer.special("eos")


@pytest.mark.parametrize("token", [-1, 800, 10**12])
def test_an_id_outside_the_vocabulary_is_named(tokenizer, token):
    with pytest.raises(TextError, match=str(token)):
        tokenizer.decode([token])


def test_missing_and_foreign_models_are_named(tmp_path):
    with pytest.raises(TextError, match="absent.model"):
        SentencePieceTokenizer(tmp_path / "absent.model")
    (tmp_path / "noise.model").write_bytes(b"noise")
    with pytest.raises(TextError, match="noise.model.*not a sentencepiece model"):
        SentencePieceTokenizer(tmp_path / "noise.model")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some plain text"] * 9), vocab_size=20, model_type="bpe",
        model_prefix=str(tmp_path / "plain"), minloglevel=2,
    )  # fmt: skip
    with pytest.raises(TextError, match="plain.model.*<unk>.*expected"):
        SentencePieceTokenizer(tmp_path / "plain.model")


@pytest.mark.parametrize(
    ("lines", "vocab_size", "atomic", "message"),
    [
        ([], 500, NUMBERS, "no text"),
        (["abc\n"] * 9, 193, NUMBERS, "193 is too small: 7 special.*87 characters need 194"),
        (["abc\n"] * 9, 5000, NUMBERS, "no vocabulary of 5000"),
        (["abc\n"] * 9, 500, ["a", "a"], "distinct"),
        (["abc\n"] * 9, 500, ["a", ""], "not empty"),
        (["abc\n"] * 9, 500, ["<|end|>"], "end"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path, lines, vocab_size, atomic, message):
    with pytest.raises(TextError, match=message):
        train_sentencepiece(lines, tmp_path / "t.model", vocab_size, atomic)
    assert not (tmp_path / "t.model").exists()
