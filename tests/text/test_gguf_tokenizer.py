"""The tokenizer documents made from GGUF files, as the library `tokenizers` runs them."""

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from spade_jax.text.errors import TextError
from spade_jax.text.gguf_tokenizer import PRE_TOKENIZERS, tokenizer_json

CONTROL = ["<|stop|>", "<|open|>"]
ALPHABET = sorted(ByteLevel.alphabet())
MERGES = ["h e", "l l", "he ll", "1 2", "Ġ hell"]
TOKENS = [*CONTROL, *ALPHABET, *(merge.replace(" ", "") for merge in MERGES), "<tool>"]
KINDS = gguf.TokenType
TYPES = [KINDS.CONTROL] * 2 + [KINDS.NORMAL] * (len(TOKENS) - 3) + [KINDS.USER_DEFINED]


def write(path, pre="smollm", model="gpt2", tokens=TOKENS, types=TYPES, merges=MERGES, **flags):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if merges:
        writer.add_token_merges(merges)
    for name, value in flags.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def load(folder, **options):
    return Tokenizer.from_str(tokenizer_json(write(folder / "tokenizer.gguf", **options)))


@pytest.fixture(scope="module", params=sorted(PRE_TOKENIZERS))
def any_tokenizer(request, tmp_path_factory):
    return load(tmp_path_factory.mktemp("gguf"), pre=request.param)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_decoding_undoes_encoding(any_tokenizer, text):
    ids = any_tokenizer.encode(text).ids
    assert any_tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    "pre,pieces",
    [
        ("smollm", ["hell", "o", "Ġhell", ",", "Ġ", "1", "2"]),
        ("gpt-2", ["hell", "o", "Ġhell", ",", "Ġ", "12"]),
        ("default", ["hell", "o", "Ġhell", ",", "Ġ", "12"]),
        (None, ["hell", "o", "Ġhell", ",", "Ġ", "12"]),
    ],
)
def test_merges_apply_within_the_pieces_of_the_pre_tokenizer(tmp_path, pre, pieces):
    assert load(tmp_path, pre=pre).encode("hello hell, 12").tokens == pieces


def test_ids_are_the_files_and_control_tokens_are_special(tmp_path):
    tokenizer = load(tmp_path)
    assert tokenizer.get_vocab() == {token: index for index, token in enumerate(TOKENS)}
    ids = tokenizer.encode("<|open|>he<tool><|stop|>").ids
    assert ids == [TOKENS.index(token) for token in ("<|open|>", "he", "<tool>", "<|stop|>")]
    assert tokenizer.decode(ids) == "he<tool>"
    tokenizer.encode_special_tokens = True
    assert not {0, 1} & set(tokenizer.encode("<|open|>he<|stop|>").ids)


def test_a_token_named_as_the_end_is_special_whatever_its_type(tmp_path):
    tokenizer = load(tmp_path, types=[KINDS.NORMAL] * len(TOKENS), eos_token_id=1)
    assert tokenizer.decode(tokenizer.encode("<|open|><|stop|>").ids) == "<|stop|>"


def test_beginning_and_end_are_added_only_where_the_file_says_so(tmp_path):
    ids = {"bos_token_id": 1, "eos_token_id": 0}
    assert load(tmp_path, **ids).encode("he").tokens == ["he"]
    both = load(tmp_path, **ids, add_bos_token=True, add_eos_token=True)
    assert both.encode("he").tokens == ["<|open|>", "he", "<|stop|>"]
    assert both.encode("he", add_special_tokens=False).tokens == ["he"]
    assert load(tmp_path, **ids, add_bos_token=True).encode("he").tokens == ["<|open|>", "he"]


def test_a_byte_outside_the_vocabulary_is_dropped_and_nothing_else(tmp_path):
    tokens = [token for token in TOKENS if token != "Ą"]  # byte 4
    tokenizer = load(tmp_path, tokens=tokens, types=TYPES[1:], unk_token_id=0)
    assert tokenizer.encode("h\x04o").tokens == ["h", "o"]


@pytest.mark.parametrize(
    "options,named",
    [
        ({"model": "llama"}, "kind 'llama'"),
        ({"pre": "klingon"}, "'klingon'"),
        ({"merges": None}, "lacks tokenizer.ggml.merges"),
        ({"merges": ["h x"]}, "'h x'"),
        ({"merges": ["he"]}, "'he'"),
        ({"tokens": [*TOKENS[:-1], "he"]}, "lists 1 tokens twice"),
        ({"types": TYPES[:-1]}, "token types"),
        ({"eos_token_id": len(TOKENS)}, "outside"),
        ({"add_bos_token": True}, "bos token"),
    ],
)
def test_other_tokenizers_and_contradictions_are_refused_by_name(tmp_path, options, named):
    path = write(tmp_path / "tokenizer.gguf", **options)
    with pytest.raises(TextError, match=named):
        tokenizer_json(path)


@pytest.mark.parametrize("content", [None, b"", b"not a model " * 100])
def test_files_that_are_not_gguf_are_refused(tmp_path, content):
    path = tmp_path / "broken.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TextError, match="broken.gguf"):
        tokenizer_json(path)
