from spade_jax.text import NUMBERS, common_lines, train_sentencepiece


def test_the_lines_that_save_most_come_first():
    texts = ["short line\n" * 3 + "a line that is a good deal longer\n" * 2] * 2
    assert common_lines(texts, 5) == ("a line that is a good deal longer\n", "short line\n")
    assert common_lines(texts, 1) == ("a line that is a good deal longer\n",)


def test_a_line_whose_numbers_vary_is_left_out_and_one_with_a_fixed_number_is_not():
    texts = [f"    N = {n}\n    self.turn += 1\n" for n in range(20)]
    assert common_lines(texts, 9) == ("    self.turn += 1\n",)


def test_rare_short_blank_and_unfinished_lines_are_left_out():
    assert common_lines(["only once\n", "x:\n", "x:\n", "\n\n   \n", "no newline"], 9) == ()
    assert common_lines(["no newline"] * 9, 9) == ()


def test_ties_are_broken_by_the_text_itself():
    forward = ["line bb\nline aa\n"] * 2
    backward = ["line aa\nline bb\n"] * 2
    assert common_lines(forward, 2) == common_lines(backward, 2) == ("line aa\n", "line bb\n")


def test_with_its_common_lines_named_a_source_takes_fewer_tokens(sources, tmp_path):
    lines = common_lines(sources, 8)
    plain = train_sentencepiece(sources, tmp_path / "plain.model", 250)
    named = train_sentencepiece(sources, tmp_path / "named.model", 250, (*NUMBERS, *lines))
    ids = named.encode(sources[5])
    assert named.decode(ids) == sources[5]
    assert len(ids) < len(plain.encode(sources[5])) / 2
    assert named.encode("8")[0] in ids  # N stays a token of its own
    assert [len(named.encode(line)) for line in lines] == [1] * len(lines)
