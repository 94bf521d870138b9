from importlib.resources import files

from tiering.hot.buckets import BucketDesk
from tiering.hot.compaction import CompactionDesk
from tiering.hot.logs import Logs
from tiering.hot.restorer import Restorer
from tiering.hot.retention import RetentionDesk
from tiering.hot.scripts import VERBS
from tiering.hot.sealing import SealingDesk
from tiering.hot.tier import HotTier
from tiering.hot.together import Together

FOLDER = files("tiering").joinpath("lua")


def lua_files() -> set[str]:
    return {
        entry.name.removesuffix(".lua") for entry in FOLDER.iterdir() if entry.name.endswith(".lua")
    }


def test_scripts_and_methods_are_the_same_set() -> None:
    assert lua_files() == set(VERBS)
    desks = (SealingDesk, BucketDesk, RetentionDesk, CompactionDesk)
    users = (HotTier, Together, Logs, Restorer, *desks)
    methods = {name for user in users for name in vars(user)}
    assert methods.issuperset(VERBS)


def test_every_script_says_what_it_does_and_takes() -> None:
    for verb in VERBS:
        own = FOLDER.joinpath(f"{verb}.lua").read_text()
        for word in ("-- KEYS:", "-- ARGV:", "-- Returns"):
            assert word in own, f"{verb}.lua does not say {word}"
