from ds_server.problem import STATUS
from tiering.errors import StreamError


def subclasses(kind: type[StreamError]) -> set[type[StreamError]]:
    direct = set(kind.__subclasses__())
    return direct.union(*(subclasses(child) for child in direct))


def test_every_kind_of_error_has_a_status() -> None:
    for kind in subclasses(StreamError):
        assert any(ancestor in STATUS for ancestor in kind.__mro__), kind
