"""How much memory may be taken: by the machine, by the groups of a container, and by a Dask worker."""

import pytest

from squeak.core import memory

MB = 2**20


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Return a function that writes the files of a group of processes, as Linux shows them."""

    def write(folder, **files):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (tmp_path / folder / name.replace("__", ".")).write_text(str(text))

    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    return write


def member(monkeypatch, *lines):
    real = memory.Path.read_text

    def read(path, *given):
        return "\n".join(lines) if str(path) == "/proc/self/cgroup" else real(path, *given)

    monkeypatch.setattr(memory.Path, "read_text", read)


def test_the_limit_of_a_container_counts_and_files_in_its_memory_do_not(groups, monkeypatch):
    member(monkeypatch, "0::/app/worker")
    groups("app", memory__max=500 * MB, memory__current=300 * MB, memory__stat=f"anon 5\ninactive_file {100 * MB}")
    groups("app/worker", memory__max="max", memory__current=5 * MB)
    assert memory.free_memory() == 300 * MB
    groups("app/worker", memory__max=50 * MB, memory__current=60 * MB)
    assert memory.free_memory() == 0.0


def test_groups_of_the_first_form_are_known_too(groups, monkeypatch):
    member(monkeypatch, "5:cpu:/elsewhere", "4:memory:/not/mounted/here")
    groups("memory", memory__limit_in_bytes=200 * MB, memory__usage_in_bytes=50 * MB)
    assert memory.free_memory() == 150 * MB


def test_without_limits_the_machine_decides(groups, monkeypatch):
    member(monkeypatch, "0::/")
    assert 0 < memory.free_memory() < float("inf")
    assert memory.limit_of_worker() == float("inf")
