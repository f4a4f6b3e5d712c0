"""Rounds of designs by a model that says what a test wants, with real validation."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from configs import base
from sandbox_runner import BlockingPool
from spade_jax.cycle.designing import _try_designs
from spade_jax.designer import DesignRequest, DesignSettings, SkillMatcher
from spade_jax.envs.library import FAMILIES
from spade_jax.prompts import Prompts
from tests.rollout.scripted import ScriptedEngine

END = 1


class Letters:
    """A token is a character; role markers are the texts themselves."""

    stop_ids = truncate_suffix = (END,)

    def open(self, messages, *tools):
        return [ord(c) for message in messages for c in f"[{message.role}]{message.content}"]

    def decode(self, tokens):
        return "".join(chr(token) for token in tokens if token != END)


class Speaker(ScriptedEngine):
    """Its reply is `answer(prompt)`; one without an end is cut."""

    def __init__(self, answer, **more):
        super().__init__(lambda handle: spelled(answer(Letters().decode(handle.context))), **more)

    @property
    def heard(self):
        """The prompts that it has answered."""
        return [Letters().decode(context) for context, _ in self.said]


def spelled(reply):
    """Its ids and how it ends."""
    ids = [ord(c) for c in reply.removesuffix("<end>")]
    return ([*ids, END], "stop") if reply.endswith("<end>") else (ids, "length")


class Phases:
    def __init__(self):
        self.names = []

    def phase(self, name):
        self.names.append(name)
        return contextlib.nullcontext()


SEED_ENV = FAMILIES["press"].sample(np.random.default_rng(0), 4)
GOOD = f"```python\n{SEED_ENV.source}\n```\nHint: {SEED_ENV.hint}<end>"
NO_CODE = "I would rather not.<end>"
BROKEN = GOOD.replace("class ", "klass ", 1).replace("klass", "class X(:\nclass", 1)
COMPLAINT = "[user]The environment was rejected"


@pytest.fixture(scope="module")
def pool():
    with BlockingPool() as pool:
        yield pool


def designed(pool, answer, repair_turns, names=("a",), phases=None, **more):
    config = base.get_config()
    config.designer.repair_turns = repair_turns
    engine = Speaker(answer, **more)
    rooms = SimpleNamespace(
        config=config, engines={"designer": engine},
        language=SimpleNamespace(chats={"designer": Letters()}),
        prompts=Prompts("chat"), design_settings=DesignSettings(1.0, 10**5, 25, 2000), pool=pool,
        matcher=SkillMatcher([(SEED_ENV.skill, "press", SEED_ENV.source)]),
        warm=SimpleNamespace(sources=frozenset()),
    )  # fmt: skip
    wanted = [DesignRequest(name, SEED_ENV.skill, None, None, k) for k, name in enumerate(names)]
    return _try_designs(rooms, wanted, 7, phases or Phases()), engine


def mends_itself(prompt):
    return GOOD if COMPLAINT in prompt else NO_CODE


def test_without_repair_turns_a_rejection_stays(pool):
    phases = Phases()
    (draft,), engine = designed(pool, mends_itself, 0, phases=phases)
    assert (draft.stage, draft.first_stage, draft.repaired) == ("parse", None, 0)
    assert len(engine.heard) == 1 and phases.names == ["design", "validate"]


def test_a_repaired_design_lives_and_its_first_answer_is_what_is_trained(pool):
    (draft,), engine = designed(pool, mends_itself, 2)
    assert draft.accepted and draft.source.strip() == SEED_ENV.source.strip()
    assert (draft.first_stage, draft.repaired, draft.hint) == ("parse", 1, SEED_ENV.hint)
    assert draft.family == "press" and draft.behaviour and draft.born == 7
    trained = [t for t, m in zip(draft.trajectory.tokens, draft.trajectory.mask, strict=True) if m]
    assert Letters().decode(trained) == NO_CODE.removesuffix("<end>")
    first, second = engine.heard
    assert second.startswith(f"{first}[assistant]I would rather not.{COMPLAINT}")
    assert 'at the stage "parse"' in second


def test_every_repair_turn_sees_the_whole_conversation_and_a_seed_of_its_own(pool):
    (draft,), engine = designed(pool, lambda prompt: NO_CODE, 2)
    assert (draft.stage, draft.first_stage, draft.repaired) == ("parse", "parse", 2)
    assert [prompt.count(COMPLAINT) for prompt in engine.heard] == [0, 1, 2]
    assert engine.heard[2].startswith(engine.heard[1])
    assert len({request.seed for request in engine.requests}) == 3


def test_only_rejected_designs_are_asked_again(pool):
    def answer(prompt):
        return GOOD if COMPLAINT in prompt or answer.calls.pop() else BROKEN

    answer.calls = [False, True]
    drafts, engine = designed(pool, answer, 1, names=("a", "b"))
    assert [draft.accepted for draft in drafts] == [True, True]
    assert [draft.repaired for draft in drafts] == [0, 1]
    assert len(engine.heard) == 3 and drafts[1].first_stage == "parse"


def test_a_repair_that_is_rejected_too_is_known_by_its_own_stage(pool):
    def answer(prompt):
        return GOOD.replace("Hint:", "Help:") if COMPLAINT in prompt else NO_CODE

    (draft,), _ = designed(pool, answer, 1)
    assert (draft.stage, draft.first_stage, draft.repaired) == ("hint", "parse", 1)


def test_an_answer_that_was_cut_is_not_asked_for_again(pool):
    (draft,), engine = designed(pool, lambda prompt: "and so on and", 3)
    assert (draft.stage, draft.first_stage, draft.repaired) == ("cut", None, 0)
    assert len(engine.heard) == 1


def test_where_there_is_no_room_for_a_repair_the_rejection_stays(pool):
    (draft,), engine = designed(pool, mends_itself, 1, room=650)
    assert (draft.stage, draft.first_stage, draft.repaired) == ("parse", None, 0)
    assert len(engine.heard) == 1 and len(engine.heard[0]) < 650
