"""`cdn/policy.py` decides how long an answer may be kept, and nothing else in the program does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdn import policy

ROOT = Path(__file__).parents[2]
PROGRAM = [
    path for room in ("ds_server", "tiering", "spark") for path in (ROOT / room).rglob("*.py")
]
HEADER = "cache-control"
DIRECTIVE = re.compile(
    r"\b(no-store|no-cache|no-transform|(s-)?max-?age|immutable|(must|proxy)-revalidate"
    r"|stale-(while-revalidate|if-error))\b"
)
SET_BY_AN_EDGE = re.compile(
    r"(?:set \w+\.http\.Cache-Control = |add_header Cache-Control |expires )([^;]+);"
)


def offences(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    documentation = {id(text) for text in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            text = (
                node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
            )
            if isinstance(text, str) and DIRECTIVE.search(text):
                yield f"line {node.lineno} says {text!r}"
        for key, value in assignments(node):
            if names_the_header(key) and not is_the_policys(value):
                yield f"line {value.lineno} sets Cache-Control to {ast.unparse(value)}"


def docstrings(tree: ast.AST) -> Iterator[ast.expr]:
    """And every other text that is not used for anything."""
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))


def assignments(node: ast.AST) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    match node:
        case ast.Dict():
            yield from zip(node.keys, node.values, strict=True)
        case ast.Assign(targets=[ast.Subscript(slice=key)], value=value):
            yield key, value
        case ast.Tuple(elts=[key, value]):
            yield key, value
        case ast.Call(func=ast.Attribute(attr="add" | "setdefault"), args=[key, value]):
            yield key, value


def names_the_header(key: ast.expr | None) -> bool:
    match key:
        case ast.Constant(value=str(text)):
            return text.lower() == HEADER
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name.lower().replace("_", "-") == HEADER
        case _:
            return False


def is_the_policys(value: ast.expr) -> bool:
    """Said by the policy, or handed on by who was told by it."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="policy"))):
            return True
        case ast.Attribute(value=ast.Name(id="policy")):
            return True
        case ast.Name(id="cache_control"):
            return True
        case _:
            return False


@pytest.mark.parametrize("path", PROGRAM, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_else_in_the_program_says_how_long_an_answer_is_kept(path: Path) -> None:
    assert list(offences(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        'answer = {"Cache-Control": "no-store"}',
        'answer = {"cache-control": text}',
        'response.headers["Cache-Control"] = rule(5)',
        "response.headers[headers.CACHE_CONTROL] = text",
        'response.headers.setdefault("Cache-Control", text)',
        'pairs = [("Cache-Control", text)]',
        'head = b"HTTP/1.1 200 OK\\r\\nCache-Control: public, max-age=5\\r\\n"',
        'rule = f"public, s-maxage={secs}"',
    ],
)
def test_who_says_it_all_the_same_is_found(source: str) -> None:
    assert len(list(offences(source))) >= 1


def test_who_is_told_what_to_say_by_the_policy_is_not() -> None:
    source = """
def describe(view, cache_control):
    '''Never an immutable one.'''
    head = {"Cache-Control": policy.NO_STORE}
    return {"Cache-Control": cache_control} | {"Cache-Control": policy.snapshot(stream)}
"""
    assert list(offences(source)) == []


def test_edges_say_by_themselves_only_what_the_policy_would() -> None:
    """For chunks that they take straight from the bucket, and for their own errors."""
    rules = [path.read_text() for path in sorted((ROOT / "infra/edge").iterdir())]
    said = {value for text in rules for value in SET_BY_AN_EDGE.findall(text)}
    own = {value.strip('"') for value in said if value.startswith('"')}
    assert own == {policy.NO_STORE, policy._IMMUTABLE}
    assert said - {f'"{value}"' for value in own} == {
        "bereq.http.DS-Cache-Control",
        "$cache_control_of_whole",
    }
