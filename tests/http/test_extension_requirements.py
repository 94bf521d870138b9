"""Every sentence of the extension document with MUST or SHOULD, and the test that covers it.

The sentences are numbered by us within their section and said in our words. Those that bind
clients are covered by a test in which a client does so and it works.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Requirement:
    section: str
    number: int
    sentence: str
    test: str

    def __str__(self) -> str:
        return f"§{self.section} ({self.number})"


BUCKETS = "http/test_buckets.py"
SNAPSHOTS = "http/test_snapshots.py"
BOOTSTRAP = "http/test_bootstrap.py"
PARSERS = "clients/test_bootstrap_parsers.py"

REQUIREMENTS = [
    Requirement(*row)
    for row in (
        ("1.1", 1, "A bucket's id matches ^[a-z0-9_-]{4,64}$.",
         f"{BUCKETS}::test_an_id_that_no_bucket_can_have"),
        ("1.1", 2, "A stream's id has at most 122 bytes.",
         f"{BUCKETS}::test_bucket_and_stream_together_have_at_most_122_bytes"),
        ("1.1", 3, "A stream's id has no '/', no NUL and no '..'.",
         f"{BUCKETS}::test_an_id_that_no_stream_can_have"),
        ("1.1", 4, "Bucket and stream together have at most 122 bytes.",
         f"{BUCKETS}::test_bucket_and_stream_together_have_at_most_122_bytes"),
        ("1.2", 1, "Buckets are created explicitly.",
         f"{BUCKETS}::test_a_bucket_is_created_once"),
        ("1.2", 2, "Creating a stream does not create its bucket.",
         f"{BUCKETS}::test_creating_a_stream_creates_no_bucket"),
        ("1.4", 1, "The limit of a listing is in 1..=1000 (a small 'must').",
         f"{BUCKETS}::test_a_question_that_makes_no_sense"),
        ("1.5", 1, "A bucket is empty before it is deleted.",
         f"{BUCKETS}::test_a_bucket_with_streams_stays"),
        ("1.6", 1, "Where the bucket does not exist, the answer is 404.",
         f"{BUCKETS}::test_everything_in_a_missing_bucket_is_not_found"),
        ("2.1", 1, "Clients use the Stream-Next-Offset values that servers return.",
         f"{SNAPSHOTS}::test_every_boundary_of_messages_can_have_a_snapshot_and_nothing_else"),
        ("2.1", 2, "Reads, snapshot offsets and bootstrap have the same message boundaries.",
         f"{BOOTSTRAP}::test_messages_are_given_back_as_they_were_written"),
        ("2.1", 3, "Offsets sort as text as they do as numbers.",
         f"{SNAPSHOTS}::test_offsets_sort_as_their_numbers_do"),
        ("2.2", 1, "The content type is stored and returned.",
         f"{SNAPSHOTS}::test_the_content_type_is_stored_and_has_a_default"),
        ("2.2", 2, "A new snapshot's offset is the new earliest retained offset.",
         f"{SNAPSHOTS}::test_reads_behind_the_snapshot_are_gone"),
        ("2.2", 3, "For every lesser offset, -1 included, the answer is 410.",
         f"{SNAPSHOTS}::test_live_readers_are_not_led_behind_the_snapshot_by_what_a_worker_remembers"),
        ("2.2", 4, "Clients do not depend on snapshots that were replaced.",
         f"{SNAPSHOTS}::test_a_newer_snapshot_replaces_the_one_before"),
        ("2.2", 5, "Creating a snapshot does not block appends.",
         f"{SNAPSHOTS}::test_appends_go_on_while_a_snapshot_arrives"),
        ("2.2", 6, "What lies at or beyond its offset is not folded into a snapshot.",
         f"{SNAPSHOTS}::test_appends_go_on_while_a_snapshot_arrives"),
        ("2.4", 1, "HEAD of a stream tells the offset of its latest snapshot.",
         f"{SNAPSHOTS}::test_the_latest_snapshot_is_found"),
        ("2.4", 2, "It is that of the snapshot that /snapshot leads to.",
         f"{SNAPSHOTS}::test_the_latest_snapshot_is_found"),
        ("3.1", 1, "A `live` parameter is refused with 400.",
         f"{BOOTSTRAP}::test_bootstrap_is_not_live"),
        ("3.2", 1, "The first part is the raw snapshot with its own content type.",
         f"{BOOTSTRAP}::test_with_a_snapshot_it_comes_first_as_it_was_published"),
        ("3.2", 2, "Every other part is exactly one retained message with its content type.",
         f"{PARSERS}::test_line_breaks_dashes_and_boundaries_of_other_answers"),
        ("3.2", 3, "Without a snapshot the first part is there and is empty.",
         f"{BOOTSTRAP}::test_without_a_snapshot_the_first_part_is_empty"),
        ("3.2", 4, "Then Stream-Snapshot-Offset is -1.",
         f"{BOOTSTRAP}::test_without_a_snapshot_the_first_part_is_empty"),
        ("3.2", 5, "Then the first part is application/octet-stream.",
         f"{BOOTSTRAP}::test_without_a_snapshot_the_first_part_is_empty"),
        ("3.2", 6, "There is no outer framing around the multipart body.",
         f"{BOOTSTRAP}::test_the_body_is_plain_multipart_and_nothing_around_it"),
        ("3.2", 7, "Boundaries are those of ordinary reads and of snapshot offsets.",
         f"{BOOTSTRAP}::test_messages_are_given_back_as_they_were_written"),
        ("3.2", 8, "Binary payloads are neither reinterpreted nor reframed.",
         f"{PARSERS}::test_random_bytes_of_every_length"),
        ("3.3", 1, "Clients go on with ordinary reads from the Stream-Next-Offset.",
         f"{BOOTSTRAP}::TestFollowing::test_bootstrap_then_live_is_the_whole_stream"),
        ("3.3", 2, "Clients prefer SSE and fall back to long-poll.",
         f"{BOOTSTRAP}::TestFollowing::test_bootstrap_then_live_is_the_whole_stream"),
        ("3.4", 1, "An ordinary read never returns snapshot bytes.",
         f"{SNAPSHOTS}::test_an_ordinary_read_never_gives_the_snapshot"),
        ("3.4", 2, "Clients that are told 410 call bootstrap, and go on from there.",
         f"{BOOTSTRAP}::TestFollowing::test_who_is_told_gone_finds_everything_with_bootstrap"),
        ("3.4", 3, "Where 410 is answered, bootstrap has a snapshot that covers what is gone.",
         f"{BOOTSTRAP}::TestFollowing::test_who_is_told_gone_finds_everything_with_bootstrap"),
        ("3.4", 4, "Clients parse bootstrap as a sequence; MIME parts are its boundaries.",
         f"{PARSERS}::test_line_breaks_dashes_and_boundaries_of_other_answers"),
        ("4", 1, "SSE of binary streams says that it is base64.",
         f"{SNAPSHOTS}::test_binary_events_are_as_ever"),
        ("4", 2, "Extension endpoints do not change the shape of those events.",
         f"{SNAPSHOTS}::test_binary_events_are_as_ever"),
        ("5", 1, "Offsets in paths are URL-encoded and decoded.",
         f"{SNAPSHOTS}::test_an_offset_may_be_percent_encoded"),
    )
]  # fmt: skip


@cache
def said_by_tests_of(file: str) -> dict[str, str]:
    """Each test's name, with that of its class, and all that is said in its favour."""
    found = {}
    for node in ast.parse((TESTS / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            said = ast.get_docstring(node) or ""
            for one in node.body:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[f"{node.name}::{one.name}"] = said + (ast.get_docstring(one) or "")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = ast.get_docstring(node) or ""
    return found


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_a_requirement_has_a_test_that_names_its_section(requirement: Requirement) -> None:
    file, _, name = requirement.test.partition("::")
    assert name in said_by_tests_of(file)
    assert f"§{requirement.section}" in said_by_tests_of(file)[name]


def test_requirements_are_numbered_without_gaps() -> None:
    sections = sorted({requirement.section for requirement in REQUIREMENTS})
    for section in sections:
        numbers = [one.number for one in REQUIREMENTS if one.section == section]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("file", [BUCKETS, SNAPSHOTS, BOOTSTRAP, PARSERS])
def test_every_test_of_the_extensions_names_a_section(file: str) -> None:
    tests = {name: said for name, said in said_by_tests_of(file).items() if "test_" in name}
    assert [name for name, said in tests.items() if "§" not in said] == []
