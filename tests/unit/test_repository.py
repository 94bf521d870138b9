"""What every file that could be committed must keep to."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.needs import lack, need

ROOT = Path(__file__).parents[2]
MEBIBYTE = 1 << 20

DOWNLOAD_ADDRESS = re.compile(
    r'"resolved"\s*:'
    r"|index[-_]url\b\s*=?\s*\S*//"
    r"|find[-_]links\b\s*=?\s*\S*/"
    r"|\bregistry\s*=\s*\S*//"
    r"|https?://(registry|files|index|proxy|repo\d*|static|deb|dl|downloads?|packages|mirrors?)\.[a-z]"
    r"|https?://[^\s\"'<>()]+\.(whl|tgz|tar\.\w+|zip|crate|deb|rpm|jar)\b",
    re.IGNORECASE,
)
LEFT_OVER_NOTE = re.compile(r"\b(TODO|FIXME)\b|^(<{7}|>{7}) ")


def files() -> Iterator[Path]:
    """Committed or about to be, except this one: it is full of what it looks for."""
    listed = subprocess.run(
        [need("git"), "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        lack(f"this is not a git checkout: {listed.stderr.strip()}")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return (path for path in paths if path.is_file() and path != Path(__file__))


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_a_download_address() -> None:
    assert lines_with(DOWNLOAD_ADDRESS) == []


@pytest.mark.parametrize("place", [ROOT, Path.home()], ids=["checkout", "home"])
def test_no_file_names_a_place_on_this_machine(place: Path) -> None:
    if place != Path(place.anchor):
        assert lines_with(re.compile(rf"(?<![\w.]){re.escape(str(place))}(/|\b)")) == []


def test_no_file_has_left_over_notes() -> None:
    assert lines_with(LEFT_OVER_NOTE) == []


def test_no_file_is_larger_than_a_mebibyte() -> None:
    assert [path for path in files() if path.stat().st_size > MEBIBYTE] == []


@pytest.mark.parametrize(
    "line",
    [
        '"resolved": "anything"',
        "--index-url https://example.test/simple",
        "find-links = /somewhere",
        "registry=https://example.test/",
        "https://files.example.test/thing",
        "see https://example.test/a/b-1.0-py3-none-any.whl",
    ],
)
def test_a_download_address_is_recognised(line: str) -> None:
    assert DOWNLOAD_ADDRESS.search(line)


@pytest.mark.parametrize(
    "line",
    ["http://localhost:4437/v1/stream/a", "https://example.test/docs", "--no-emit-index-url"],
)
def test_an_ordinary_address_is_not_taken_for_a_download_address(line: str) -> None:
    assert not DOWNLOAD_ADDRESS.search(line)
