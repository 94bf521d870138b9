"""The table of what an edge does for a server."""

from collections.abc import Mapping, Sequence

from loadtest.edge_scenarios import Result

LABELS = {
    "hand-off": "ds-server, Varnish, hand-off",
    "straight": "ds-server, Varnish, straight",
    "nginx": "ds-server, nginx, hand-off",
    "node": "Node memory, Varnish",
}
TITLES = {
    "replay": "{readers:,} readers replay one closed stream of {mib} MiB",
    "sse": "{sse:,} SSE readers of one stream, 50 messages",
    "long-poll": "{sse:,} long-polling readers of one stream, 20 messages",
    "joiners": "{joiners:,} readers join a stream in 10 s that is written 50 times a second",
}
COLUMNS = (
    ("requests", "requests to the server", ",.0f"),
    ("chunks", "chunks", ",.0f"),
    ("per_message", "per message", ",.1f"),
    ("per_second", "per second of joining", ",.1f"),
    ("peak", "most in a second", ",.1f"),
    ("origin_mb", "MB from the server", ",.2f"),
    ("mb_per_s", "MB/s to readers", ",.0f"),
    ("turned_away", "503s", ",.0f"),
    ("p50_ms", "p50 ms", ",.0f"),
    ("p99_ms", "p99 ms", ",.0f"),
    ("seconds", "seconds", ",.1f"),
    ("server_cpu", "server CPU s", ",.2f"),
    ("edge_cpu", "edge CPU s", ",.1f"),
    ("edge_mb", "edge MB", ",.0f"),
)
NONE = "\N{EN DASH}"
INTRODUCTION = (
    "# Behind an edge\n\n"
    "Made by `make edgebench`, load generator, edge and server on one machine; "
    "the rules are those of `infra/edge`, the same for all. Requests and bytes are those that "
    "Varnish counts towards the server, without its health probes (behind nginx: the reads that "
    "the server counts). Every byte and every message is checked by every reader; a run in which "
    "one is missing, repeated or wrong is shown as failed. Each figure is of one run. What was to "
    "be reached stands below the table. The Node server sends no `Cache-Control` with what it "
    "reads from a stream, so nothing of that may be kept.\n"
)


def page(results: Sequence[Result], facts: Mapping[str, str], size: float) -> str:
    lines = [INTRODUCTION, *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += ["| | " + " | ".join(title for _, title, _ in COLUMNS) + " |"]
    lines += ["|---|" + "---:|" * len(COLUMNS)]
    sizes = {
        "readers": int(1000 * size),
        "mib": max(8, int(64 * size)),
        "sse": int(2000 * size),
        "joiners": int(500 * size),
    }
    for scenario in dict.fromkeys(result.scenario for result in results):
        title = TITLES[scenario].format(**sizes)
        lines += [f"| **{title}** |" + " |" * len(COLUMNS)]
        lines += [_row(result) for result in results if result.scenario == scenario]
    return "\n".join([*lines, "", *_verdicts(results), ""])


def _row(result: Result) -> str:
    if result.errors:
        return f"| {LABELS[result.stack]} | failed: {result.errors[0][:120]} |" + " |" * (
            len(COLUMNS) - 1
        )
    figures = dict(result.figures)
    if "messages" in figures:
        figures["per_message"] = figures["requests"] / figures["messages"]
    label = LABELS[result.stack]
    if (result.scenario, result.stack) == ("replay", "node"):
        label += " (a tenth of the readers, a quarter of the stream: each costs it the whole body)"
    cells = [format(figures[key], form) if key in figures else NONE for key, _, form in COLUMNS]
    return f"| {label} | " + " | ".join(cells) + " |"


def _verdicts(results: Sequence[Result]) -> list[str]:
    """What was to be reached, and whether it was."""
    found = []
    for result in results:
        if result.stack != "node":
            for text, is_reached in _limits(result):
                mark = "reached" if is_reached and not result.errors else "**missed**"
                found.append(f"- {LABELS[result.stack]}: {text}: {mark}")
    return found


def _limits(result: Result) -> list[tuple[str, bool]]:
    figures = result.figures
    requests = figures.get("requests", float("inf"))
    match result.scenario, result.stack:
        case "replay", "straight":
            return [("replay, at most 5 requests", requests <= 5)]
        case "replay", _:
            chunks = int(figures.get("chunks", 0))
            limit = (f"replay, at most chunks + 5 = {chunks + 5} requests", requests <= chunks + 5)
            if "origin_mb" not in figures:
                return [limit]
            return [limit, ("replay, no chunk body from the server", figures["origin_mb"] < 0.01)]
        case "sse", _:
            return [("SSE, at most 5 connections", requests <= 5)]
        case "long-poll", _:
            each = requests / figures.get("messages", 1)
            return [("long-poll, at most 5 requests per message", each <= 5)]
        case _:
            each = figures.get("per_second", float("inf"))
            return [("joiners, at most 3 requests per second of joining", each <= 3)]
