from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tiering.objects.files import Scratch


def test_a_file_being_written_survives_those_who_tidy_up(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.open()

    def write() -> None:
        for _ in range(100):
            with scratch.file(b"content") as path:
                assert path.read_bytes() == b"content"

    with ThreadPoolExecutor(4) as crowd:
        writing = [crowd.submit(write) for _ in range(2)]
        while not all(one.done() for one in writing):
            scratch.open()
        for one in writing:
            one.result()
    assert list((tmp_path / "scratch").iterdir()) == []
