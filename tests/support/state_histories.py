"""Random histories of the State Protocol, and the state that each comes to."""

import json
import random
import re
from dataclasses import dataclass, field

Entry = tuple[str, str]
"""Type and key."""

TYPES = ("user", "größe", "", 'a "type"')
NUMBERS = ("0", "-0", "1.0", "1E5", "1e400", "0.1e-7", "12345678901234567890123", "-3.50")
VALUES = (
    "null",
    "true",
    '""',
    '"\\ud83d\\ude00 \\ud800"',
    '"{\\"headers\\":{\\"control\\":\\"reset\\"}}"',
    '{"a" : [1, 2 ,{"b":null}],\n\t"a": "twice"}',
    "[\r\n1,\r\n2]",
    "{}",
)
KEYS = (*"abcdefgh", "", "é", "日本", "new\nline", '"', "\\", "%2F ,", "\ud800", "x\udfffy")
RESET = ("", "reset")


@dataclass
class History:
    """Remembers of every message where it ends and what it does. The bytes of values are as they
    were written, but for line breaks."""

    chance: random.Random
    said: list[bytes] = field(default_factory=list)
    _done: list[tuple[int, Entry | None, bytes | None]] = field(default_factory=list)
    _end: int = 0

    def messages(self, count: int, *, only_new: bool = False) -> list[bytes]:
        found = [self._message(only_new) for _ in range(count)]
        self.said += found
        return found

    def after(self, position: int) -> list[bytes]:
        return [one for one, done in zip(self.said, self._done, strict=True) if done[0] > position]

    def state(self, position: int | None = None) -> dict[Entry, bytes]:
        """What a client knows there, or at the end, in the order of the last writes."""
        found: dict[Entry, bytes] = {}
        for end, entry, value in self._done:
            if position is not None and end > position:
                break
            if entry == RESET:
                found.clear()
            elif entry is not None:
                found.pop(entry, None)
                if value is not None:
                    found[entry] = value
        return found

    def _message(self, only_new: bool) -> bytes:
        dice = self.chance.random()
        if dice < 0.02:
            return self._remembered(self._control("reset"), RESET)
        if dice < 0.05:
            control = self.chance.choice(["snapshot-start", "snapshot-end"])
            return self._remembered(self._control(control))
        is_new = only_new or self.chance.random() < 0.5
        entry = self.chance.choice(TYPES), self.chance.choice(KEYS)
        if dice < 0.25:
            operation = "delete" if is_new else "remove"
            return self._remembered(self._change(entry, operation, is_new, None), entry)
        known = ("insert", "update", "upsert") if is_new else ("set", "append")
        value = self._value()
        text = self._change(entry, self.chance.choice(known), is_new, value)
        return self._remembered(text, entry, re.sub("[\r\n]", " ", value).encode())

    def _remembered(
        self, text: str, entry: Entry | None = None, value: bytes | None = None
    ) -> bytes:
        message = text.encode()
        self._end += len(message) + 1
        self._done.append((self._end, entry, value))
        return message

    def _control(self, control: str) -> str:
        offset = self.chance.choice([', "offset": "12_34"', ""])
        return f'{{"headers": {{"control": "{control}"{offset}}}}}'

    def _change(self, entry: Entry, operation: str, is_new: bool, value: str | None) -> str:
        kind, key = (self._text(one) for one in entry)
        fields = [f'"type": {kind}', f'"key":{key}', *self._extras(value)]
        if is_new:
            fields.append(f'"headers":{{"txid":"7","operation":"{operation}"}}')
        else:
            fields.append(f'"operation" :"{operation}"')
        self.chance.shuffle(fields)
        return f"{{{', '.join(fields)}}}"

    def _extras(self, value: str | None) -> list[str]:
        """What a delete may say as well, and what nobody needs to know."""
        found = [f'"value":{"null" if value is None else value}'] * (
            value is not None or self.chance.random() < 0.5
        )
        return found + ['"old_value":{"key":"x"}'] * (self.chance.random() < 0.3)

    def _text(self, text: str) -> str:
        """The same string, written in one way or another."""
        is_whole = not re.search("[\ud800-\udfff]", text)
        return json.dumps(text, ensure_ascii=not is_whole or self.chance.random() < 0.5)

    def _value(self) -> str:
        if self.chance.random() < 0.5:
            return self.chance.choice(VALUES)
        number = self.chance.choice(NUMBERS)
        return f'{{"n":  {number}, "text": "{"x" * self.chance.randrange(80)}"}}'
