import pytest

from spade_jax.grounding import CorpusError, Document, Mixture, cut_words


def documents(prefix, count):
    return [Document(f"{prefix}{i}", f"text {prefix}{i}") for i in range(count)]


def test_cut_keeps_the_spacing_of_what_remains():
    assert cut_words("  one\n\n two\tthree four", 3) == "  one\n\n two\tthree"


def test_a_text_shorter_than_the_cap_keeps_its_trailing_space():
    assert cut_words("one two \n", 3) == "one two \n"


def test_a_mixture_is_its_parts_end_to_end():
    mixture = Mixture([documents("a", 2), documents("b", 3)], [1, 5])
    assert [mixture[i].id for i in range(len(mixture))] == ["a0", "a1", "b0", "b1", "b2"]
    with pytest.raises(IndexError):
        mixture[5]


@pytest.mark.parametrize("weights", [[1], [1, 0], [1, -1], [1, float("nan")], [1, float("inf")]])
def test_bad_mixture_weights_are_refused(weights):
    with pytest.raises(CorpusError, match="weight"):
        Mixture([documents("a", 2), documents("b", 2)], weights)
