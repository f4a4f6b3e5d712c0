from tensorboardX.proto import event_pb2

from spade_jax.sinks import TensorBoard


def events(folder):
    """All events of a log folder, from TensorBoard's length-prefixed records."""
    for path in sorted(folder.glob("events.*")):
        data = path.read_bytes()
        while data:
            length = int.from_bytes(data[:8], "little")
            yield event_pb2.Event.FromString(data[12:12 + length])
            data = data[16 + length:]


def scalars(folder):
    return [(event.step, value.tag, value.simple_value)
            for event in events(folder) for value in event.summary.value]


def test_numbers_are_written_and_redone_steps_supersede(tmp_path):
    first = TensorBoard(tmp_path)
    first.write(0, {"loss": 1.0})
    first.write(1, {"loss": 0.5})
    first.close()
    second = TensorBoard(tmp_path)
    second.rewind()
    second.write(1, {"loss": 0.75})
    second.rewind()
    second.write(1, {"loss": 0.25})
    second.close()
    second.close()
    assert scalars(tmp_path) == [
        (0, "loss", 1.0), (1, "loss", 0.5), (1, "loss", 0.75), (1, "loss", 0.25)]
    restarts = [event.step for event in events(tmp_path) if event.HasField("session_log")]
    assert restarts == [0, 1, 1]


def test_without_numbers_there_are_no_files(tmp_path):
    TensorBoard(tmp_path / "tensorboard").close()
    assert not (tmp_path / "tensorboard").exists()
