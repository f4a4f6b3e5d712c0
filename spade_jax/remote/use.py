"""What a server was asked for, and what that costs."""

from collections.abc import Mapping, Sequence

import msgspec


class Use(msgspec.Struct):
    """Counters of one purpose. A call is one question, with all its tries; retries and tokens count
    of answered questions only."""

    calls: int = 0
    failures: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, other: "Use") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Prices(msgspec.Struct, frozen=True):
    """Of a million tokens, in whatever currency."""

    prompt: float = 0.0
    completion: float = 0.0

    def cost(self, use: Use) -> float:
        return (use.prompt_tokens * self.prompt + use.completion_tokens * self.completion) / 1e6


def use_metrics(shares: Sequence[Mapping[str, Use]], prices: Prices) -> dict[str, float]:
    """`remote/NAME` over all purposes and `remote/PURPOSE/NAME`, summed over the processes.

    Args:
        shares: each process's use, by purpose.
    """
    total, purposes = Use(), {}
    for share in shares:
        for purpose, use in share.items():
            purposes.setdefault(purpose, Use()).add(use)
            total.add(use)
    metrics = {}
    for prefix, use in [("remote", total), *((f"remote/{p}", u) for p, u in purposes.items())]:
        counts = msgspec.structs.asdict(use) | {"cost": prices.cost(use)}
        metrics |= {f"{prefix}/{name}": value for name, value in counts.items()}
    return metrics
