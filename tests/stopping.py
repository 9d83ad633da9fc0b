"""A run with a checkpoint, stopped after every few writes of it and begun again until it ends."""

from squeak.samplers import checkpoint


class StoppedError(BaseException):
    """The process is gone: nothing that is in memory is left."""


def run_with_stops(monkeypatch, run, writes):
    """Call ``run`` again and again, each time stopped after so many writes; return its result and the stops."""
    stops = 0
    while True:
        try:
            return stopped(monkeypatch, run, writes), stops
        except StoppedError:
            stops += 1


def stopped(monkeypatch, run, writes):
    """Return what ``run`` returns if it ends before so many writes of its checkpoint; else it is stopped."""
    write, count = checkpoint.storage.write, 0

    def stopping(*arguments):
        nonlocal count
        write(*arguments)
        count += 1
        if count == writes:
            raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.storage, "write", stopping)
        return run()
