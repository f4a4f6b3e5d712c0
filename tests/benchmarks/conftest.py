import jax
import pytest


@pytest.fixture
def quick_to_compile():
    """Most of the tiny run's time is the compiler's."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
