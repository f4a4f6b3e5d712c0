"""Designs as bytes, for other processes."""

import msgspec

from spade_jax.designer.environment import Environment
from spade_jax.parallel import Wire
from spade_jax.rollout import PackedRow, Trajectory

_Packed = tuple[Environment, PackedRow]  # the design without its row


def _encode(designs: list[Environment]) -> bytes:
    return msgspec.msgpack.encode(
        [
            (
                msgspec.structs.replace(design, trajectory=Trajectory()),
                PackedRow.of(design.trajectory),
            )
            for design in designs
        ]
    )


def _decode(data: bytes) -> list[Environment]:
    return [
        msgspec.structs.replace(design, trajectory=packed.row())
        for design, packed in msgspec.msgpack.decode(data, type=list[_Packed])
    ]


DESIGNS = Wire(_encode, _decode)  # of `list[Environment]`
