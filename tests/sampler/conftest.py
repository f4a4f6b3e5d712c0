import jax
import pytest

from spade_jax import models, parallel
from tests.sampler.engines import CONFIG, SETTINGS, gib, opened


@pytest.fixture(scope="session")
def params():
    return parallel.unbox(models.init(CONFIG, jax.random.key(0)))


@pytest.fixture(scope="session")
def small(params):
    """An engine with twice the pages of one context, so that rows are parked."""
    return opened(params, cache_gib=gib(CONFIG, 13))


@pytest.fixture(scope="session")
def engine(params):
    engine = opened(params)
    assert SETTINGS.past_lengths() == (0, 8, 16, 32, 48)
    return engine
