import itertools
import json
from collections import Counter

import pytest

from spade_jax.grounding import CorpusError, Document, DocumentSampler, Mixture


def corpus(count, prefix="d"):
    return [Document(f"{prefix}{i}", f"words of document {prefix}{i}") for i in range(count)]


def draw(sampler, count):
    return [sampler.next().id for _ in range(count)]


def test_a_pass_is_a_permutation_and_the_next_pass_another_one():
    sampler = DocumentSampler(corpus(20), seed=3, max_words=10)
    first, second = draw(sampler, 20), draw(sampler, 20)
    assert sorted(first) == sorted(second) == sorted(d.id for d in corpus(20))
    assert first != second
    assert first != [d.id for d in corpus(20)]


def test_the_order_depends_on_the_seed_and_on_nothing_else():
    one, same, other = (DocumentSampler(corpus(30), seed, 10) for seed in (1, 1, 2))
    assert draw(one, 40) == draw(same, 40) != draw(other, 40)


def test_neighbouring_seeds_do_not_share_passes():
    one, other = DocumentSampler(corpus(20), 0, 10), DocumentSampler(corpus(20), 1, 10)
    draw(one, 20)
    assert draw(one, 20) != draw(other, 20)


def test_resuming_at_any_position_continues_the_same_order():
    whole = draw(DocumentSampler(corpus(7), 5, 10), 25)
    for cut in (0, 1, 6, 7, 8, 15):
        before = DocumentSampler(corpus(7), 5, 10)
        draw(before, cut)
        after = DocumentSampler(corpus(7), 5, 10)
        after.restore(json.loads(json.dumps(before.state())))
        assert draw(after, 5) == whole[cut:cut + 5]


def test_shards_split_every_pass_without_overlap():
    shards = [DocumentSampler(corpus(12), 5, 10, i, 3) for i in range(3)]
    for _ in range(3):
        parts = [draw(shard, 4) for shard in shards]
        assert sorted(itertools.chain(*parts)) == sorted(d.id for d in corpus(12))


def test_more_shards_than_documents_still_draw():
    shards = [DocumentSampler(corpus(2), 5, 10, i, 5) for i in range(5)]
    counts = Counter(itertools.chain(*(draw(shard, 2) for shard in shards)))
    assert counts == {"d0": 5, "d1": 5}


def test_a_resume_on_fewer_shards_continues_where_the_hosts_were_together():
    whole = draw(DocumentSampler(corpus(24), 5, 10), 24)
    saved = DocumentSampler(corpus(24), 5, 10, shard_index=1, shard_count=4)
    draw(saved, 3)
    alone = DocumentSampler(corpus(24), 5, 10)
    alone.restore(saved.state())
    assert draw(alone, 12) == whole[12:]


def test_a_mixture_is_drawn_by_weight_on_every_shard():
    mixture = Mixture([corpus(50, "a"), corpus(3, "b")], [0.75, 0.25])
    for index in range(4):
        ids = draw(DocumentSampler(mixture, 1, 10, index, 4), 40)
        assert Counter(name[0] for name in ids) == {"a": 30, "b": 10}


def test_the_parts_of_a_mixture_are_each_drawn_without_repetition():
    mixture = Mixture([corpus(10, "a"), corpus(10, "b")], [1, 1])
    ids = draw(DocumentSampler(mixture, 1, 10), 20)
    assert len(set(ids)) == 20


def test_documents_are_cut_to_the_word_cap():
    document = DocumentSampler([Document("x", "one two three four", {"k": 1})], 0, 2).next()
    assert (document.text, document.id, document.metadata) == ("one two", "x", {"k": 1})


@pytest.mark.parametrize("change", [{"seed": 9}, {"lengths": [8]}, {"weights": [1.0, 1.0]}])
def test_a_position_of_another_corpus_is_refused(change):
    sampler = DocumentSampler(corpus(7), 5, 10)
    with pytest.raises(CorpusError, match="belongs to a corpus"):
        sampler.restore({**sampler.state(), **change})


def test_a_state_with_missing_keys_is_refused():
    with pytest.raises(CorpusError, match="sampler state needs"):
        DocumentSampler(corpus(7), 5, 10).restore({"position": 3})


@pytest.mark.parametrize(("kwargs", "message"), [
    ({"max_words": 0}, "max_words"),
    ({"max_words": 1, "shard_index": 2, "shard_count": 2}, "shard_index"),
])
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(CorpusError, match=message):
        DocumentSampler(corpus(3), 0, **kwargs)


def test_an_empty_corpus_cannot_be_sampled():
    with pytest.raises(CorpusError, match="without documents"):
        DocumentSampler([], 0, 10)
