"""infra/cron, as far as it can be checked without a cron, a systemd or a cluster."""

import fcntl
import re
import shlex
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.needs import need

from spark import cli, rules

CRON = Path(__file__).parents[2] / "infra" / "cron"
RULES = CRON / "snapshot-rules.toml"
JOBS = {"compact": "cronjob.yaml", "snapshot": "cronjob-snapshot.yaml"}
SCHEDULE = re.compile(r"(?:[0-9*/,-]+ ){5}")


def unit(name: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((CRON / name).read_text())
    return parser


def cron_job(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((CRON / name).read_text()))


def container(name: str) -> dict[str, Any]:
    pod = cron_job(name)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return dict(pod["containers"][0])


def arguments_of(command: str) -> list[str]:
    words = shlex.split(command)
    program = next(n for n, word in enumerate(words) if word.endswith("/ds-spark"))
    ends = (n for n, word in enumerate(words) if word.startswith(">") or word == "||")
    return words[program + 1 : next(ends, None)]


def crontab() -> list[str]:
    return [line for line in (CRON / "crontab").read_text().splitlines() if line[:1] not in "#"]


def mailed_by_cron(place: Path, exit_code: int) -> str:
    """What the job prints when its command ends in that way; all files are below `place`."""
    command = place / "ds-spark"
    command.write_text(f"#!/bin/sh\necho done\nexit {exit_code}\n")
    command.chmod(0o755)
    job = next(SCHEDULE.sub("", line, count=1) for line in crontab() if "ds-compact" in line)
    found = re.sub(r"(?<=[ >])/\S+/(?=\S)", f"{place}/", job)
    ran = subprocess.run(["/bin/sh", "-c", found], capture_output=True, text=True)
    return ran.stdout + ran.stderr


def test_the_crontab_mails_when_the_command_fails_and_only_then(tmp_path: Path) -> None:
    need("flock")
    assert mailed_by_cron(tmp_path, 0) == ""
    assert mailed_by_cron(tmp_path, 3) == "ds-spark compact ended with 3\n"
    assert (tmp_path / "compact.log").read_text() == "done\n" * 2


def test_the_crontab_says_nothing_when_the_last_run_still_goes_on(tmp_path: Path) -> None:
    need("flock")
    with (tmp_path / "ds-compact.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert mailed_by_cron(tmp_path, 3) == ""
    assert (tmp_path / "compact.log").read_text() == ""


def test_the_crontab_has_jobs_and_variables_for_them() -> None:
    lines = crontab()
    jobs = [line for line in lines if SCHEDULE.match(line)]
    assert all(re.fullmatch("[A-Z_]+=[^ ]+", line) for line in lines if line not in jobs)
    assert not any("%" in job for job in jobs), "cron would make a newline of it"
    found = [arguments_of(SCHEDULE.sub("", job, count=1)) for job in jobs]
    assert ["compact", "--json"] in found
    assert ["snapshot", "--retain", f"/etc/ds-server/{RULES.name}", "--json"] in found
    assert ["export", "--to", "/var/lib/ds-server/export", "--json"] in found
    for arguments in found:
        assert cli._parser().parse_args(arguments).json


def test_the_rules_are_some_that_ds_spark_knows() -> None:
    assert [rule.fold.name for rule in rules.read(RULES)] == ["state", "last-by-key", "concat"]


@pytest.mark.parametrize("name", JOBS)
def test_every_command_is_one_that_ds_spark_knows(name: str) -> None:
    service = unit(f"ds-{name}.service")["Service"]["ExecStart"]
    for arguments in (arguments_of(service), container(JOBS[name])["args"]):
        assert cli._parser().parse_args(arguments).command == name


@pytest.mark.parametrize("name", JOBS)
def test_the_timer_and_the_service_are_units_of_systemd(name: str) -> None:
    assert unit(f"ds-{name}.service")["Service"]["Type"] == "oneshot"
    assert unit(f"ds-{name}.timer")["Install"]["WantedBy"] == "timers.target"
    assert unit(f"ds-{name}.timer")["Timer"]["OnCalendar"] in ("hourly", "*:0/15")


@pytest.mark.parametrize("name", JOBS)
def test_systemd_finds_nothing_wrong_but_that_it_is_not_installed(name: str) -> None:
    found = subprocess.run(
        [need("systemd-analyze"), "verify", "--man=no", str(CRON / f"ds-{name}.service")],
        capture_output=True,
        text=True,
    )
    complaints = [line for line in found.stderr.splitlines() if f"ds-{name}" in line]
    assert all("is not executable" in line for line in complaints), found.stderr


@pytest.mark.parametrize("name", JOBS.values())
def test_the_cron_job_is_one_of_kubernetes(name: str) -> None:
    job = cron_job(name)
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    spec = job["spec"]
    assert SCHEDULE.fullmatch(spec["schedule"] + " ")
    assert spec["concurrencyPolicy"] == "Forbid"
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    mounted = {mount["name"] for one in pod["containers"] for mount in one["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
