"""The README's commands, run as they stand there, against a real server."""

import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from support.needs import need
from support.server import RunningServer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHOWN_URL = "http://localhost:4437"
BLOCK = re.compile(r"^```sh\n(.*?)^```\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DONE = "--- done ---"


class Step(NamedTuple):
    commands: str
    shown: list[str]
    answered: list[str]


def run_quickstart(server_url: str) -> list[Step]:
    quickstart = README.partition("## Quickstart")[2]
    steps = BLOCK.findall(quickstart)
    assert len(steps) == quickstart.count("```sh"), "every step shows what it answers"
    script = f"\necho; echo '{DONE}'\n".join(commands for commands, _ in steps)
    run = subprocess.run(
        [need("bash")],
        input=script.replace(SHOWN_URL, server_url),
        capture_output=True,
        text=True,
        timeout=60,
    )
    answers = run.stdout.replace("\r", "").split(DONE)
    return [
        Step(commands, shown.splitlines(), answer.splitlines())
        for (commands, shown), answer in zip(steps, answers, strict=True)
    ]


def test_the_quickstart_does_what_the_readme_shows() -> None:
    need("curl")
    with RunningServer() as server:
        steps = run_quickstart(server.url)
    for step in steps:
        assert set(step.shown) <= set(step.answered), step
    [followed] = [step.answered for step in steps if "live=sse" in step.commands]
    assert orders(followed) == [{"order": 4}, {"order": 5}]
    assert any('"streamClosed":true' in line for line in followed)


def orders(events: list[str]) -> list[object]:
    """The messages of all data events: how many come in one depends on who was faster."""
    batches = [json.loads(line[len("data:") :]) for line in events if line.startswith("data:[")]
    return [message for batch in batches for message in batch]


def test_the_quickstart_shows_the_life_of_a_stream() -> None:
    commands = README.partition("## Quickstart")[2]
    steps = ["-X PUT", "-X POST", "curl -i $STREAM", "?offset=$OFFSET", "live=sse", "-X DELETE"]
    assert [commands.index(step) for step in steps] == sorted(map(commands.index, steps))


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"
