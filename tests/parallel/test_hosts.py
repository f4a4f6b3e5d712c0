"""What the processes of a run tell each other; here they are threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spade_jax.parallel import PLAIN, HostError, Hosts, Wire
from spade_jax.parallel.hosts import SMALL, Group, _Pulse
from tests.parallel.threads import Dictionary, everywhere, groups


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("items", [0, 1, 3, 10])
def test_all_processes_get_all_results_in_the_order_of_the_items(count, items):
    members, _, _ = groups(count)
    shares = {}

    def do(group):
        def work(share):
            shares[group.index] = share
            return [item * item for item in share]

        return group.spread("squares", work, range(items))

    results = everywhere(members, do)
    assert results == [[k * k for k in range(items)]] * count
    assert sorted(item for share in shares.values() for item in share) == list(range(items))
    assert all(share == list(range(items))[index::count] for index, share in shares.items())


def test_one_process_does_the_work_and_nothing_travels():
    broken = Wire(lambda results: 1 / 0, lambda data: 1 / 0)
    hosts, result = Hosts(), [object()]
    assert hosts.spread("work", lambda share: result, [1, 2], broken) is result
    assert hosts.leader and hosts.any(True) and not hosts.any(False)
    hosts.agree("itself", float("nan"))


def test_large_results_go_over_the_network_in_few_shapes():
    members, store, network = groups(2)
    text = {0: "a" * (3 * SMALL), 1: "b"}
    for size in (3, 4):
        results = everywhere(
            members, lambda group, size=size: group.all("text", text[group.index] * size)
        )
        assert results == [[text[0] * size, text[1] * size]] * 2
    assert set(network.shapes) == {(16 * SMALL,)}
    assert sum(map(len, store.values.values())) < 1000


def test_the_store_does_not_grow():
    members, store, _ = groups(3)
    everywhere(members, lambda group: [group.all("step", k) for k in range(50)])
    assert len(store.values) == 3


def test_a_flag_of_one_process_is_seen_by_all():
    members, _, _ = groups(3)
    assert everywhere(members, lambda group: group.any(group.index == 2)) == [True] * 3
    assert everywhere(members, lambda group: group.any(False)) == [False] * 3


def test_processes_that_differ_are_named():
    members, _, _ = groups(2)
    everywhere(members, lambda group: group.agree("loss", {"loss": float("nan")}))
    with pytest.raises(HostError, match="differs from process . in loss"):
        everywhere(members, lambda group: group.agree("loss", {"loss": group.index}))


def test_processes_that_part_company_are_named():
    members, _, _ = groups(2)
    with pytest.raises(HostError, match="is at '.' while process . is at '.'"):
        everywhere(members, lambda group: group.all("ab"[group.index], None))


def test_the_leader_goes_first():
    members, _, _ = groups(3)
    order = []

    def do(group):
        with group.leader_first("files"):
            order.append(group.index)

    everywhere(members, do)
    assert order[0] == 0 and sorted(order) == [0, 1, 2]


def test_who_does_not_come_in_time_is_named():
    members, _, _ = groups(2, timeout=0.2)
    with pytest.raises(HostError, match="process 1 did not come to 'step' within .*timeout_s=0.2"):
        members[0].all("step", 1)


def test_the_failure_of_one_ends_the_wait_of_the_others():
    members, _, _ = groups(3, timeout=60.0)
    ended = []

    def end(*failure):
        ended.append(failure)

    def exit_code(error):
        return 2 if isinstance(error, ValueError) else 1

    def do(group):
        with group.together(60.0, 60.0, end, exit_code):
            if group.index == 1:
                raise ValueError("no more memory")
            group.all("step", None)

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(do, member) for member in members]
        errors = [future.exception(timeout=20) for future in futures]
    assert isinstance(errors[1], ValueError)
    for index in (0, 2):
        assert isinstance(errors[index], HostError)
        assert str(errors[index]) == "process 1 failed: ValueError: no more memory"
    assert not ended
    assert [member.exit_code for member in members] == [2, 2, 2]


def test_who_waits_outside_for_a_failed_process_is_ended():
    members, _, _ = groups(2)
    ended = threading.Event()

    def stuck(group):
        with group.together(60.0, 0.0, lambda *_: ended.set()):
            assert ended.wait(10)

    def failing(group):
        with pytest.raises(ValueError), group.together(60.0, 60.0, lambda *_: None):
            raise ValueError

    everywhere(members, lambda group: (stuck, failing)[group.index](group))


def test_a_lost_store_is_a_failure():
    class Lost(Dictionary):
        def get(self, key, seconds):
            raise HostError("the coordinator is lost")

    group, ended = Group(Lost(), 1, 2, 10.0, None), threading.Event()
    with group.together(60.0, 0.0, lambda *_: ended.set()):
        assert ended.wait(10)


def test_a_process_without_a_sign_of_life_has_failed():
    members, _, _ = groups(3, timeout=60.0)

    def do(group):
        if group.index == 1:
            return
        with group.together(1.5, 60.0, lambda *_: None):
            group.all("step", None)

    with pytest.raises(HostError, match="process 1 died"):
        everywhere(members, do)


def test_only_who_is_silent_is_missed():
    store = Dictionary()
    leader, *others = [_Pulse(store, index, 3, patience=4) for index in range(3)]
    for _ in range(3):
        for _ in range(20):  # the leader is kept from looking
            assert [pulse.silent() for pulse in others] == [None, None]
        for _ in range(4):
            assert leader.silent() is None
    assert leader.silent() is None
    for _ in range(4):
        others[1].silent()
        missed = leader.silent()
    assert missed == 1
    assert len(store.values) == 3


def test_plain_values_come_back_equal():
    values = [1, 2.5, "é", None, True, [1, [2]], {"a": {"b": 1}}]
    assert PLAIN.decode(PLAIN.encode(values)) == values
