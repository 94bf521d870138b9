"""Scenes with the official npm client, each a small script that prints its verdicts as JSON."""

import asyncio
import json
from pathlib import Path
from typing import Any

from support.needs import need, need_npm_packages

SCRIPTS = Path(__file__).parent / "scripts"
Verdict = dict[str, Any]


async def play(script: str, **given: Any) -> Verdict:
    [verdict] = await play_together(script, [given])
    return verdict


async def play_together(script: str, given: list[dict[str, Any]]) -> list[Verdict]:
    """A verdict for each thing given; AssertionError when the script fails or complains."""
    need_npm_packages()
    process = await asyncio.create_subprocess_exec(
        need("node"),
        SCRIPTS / f"{script}.mjs",
        json.dumps(given),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            printed, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"{script}.mjs failed:\n{complaints.decode()}"
    assert not complaints, f"{script}.mjs complained:\n{complaints.decode()}"
    verdicts: list[Verdict] = json.loads(printed)
    return verdicts
