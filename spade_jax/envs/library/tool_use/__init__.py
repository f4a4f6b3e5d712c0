"""Seed families of tool-use environments: programs that derive from `ToolUseEnv`."""

from spade_jax.envs.library.tool_use.courier import CourierFamily
from spade_jax.envs.library.tool_use.depot import DepotFamily
from spade_jax.envs.library.tool_use.errand import ErrandFamily
from spade_jax.envs.library.tool_use.ledger import LedgerFamily
from spade_jax.envs.library.tool_use.order import OrderFamily
from spade_jax.envs.library.tool_use.valve import ValveFamily

__all__ = [
    "CourierFamily",
    "DepotFamily",
    "ErrandFamily",
    "LedgerFamily",
    "OrderFamily",
    "ValveFamily",
]
