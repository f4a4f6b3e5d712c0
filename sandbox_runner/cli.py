"""The command line: `check` says whether programs are sound, `play` lets a person play one,
`doctor` says how well this host can contain them, `attack` tries that, `bench` what it costs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from sandbox_runner import attack, bench, confine
from sandbox_runner.checks import printable
from sandbox_runner.pool import BlockingPool
from sandbox_runner.types import EnvError, Limits, RunnerError, Verdict
from sandbox_runner.validation import validate
from sandbox_runner.validation.probes import as_action

ACCEPTED, REJECTED, USAGE, RUNNER_FAILED = 0, 1, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 all accepted or played, 1 rejected, 2 wrong usage, 3 our own failure."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except BrokenPipeError:  # who reads this has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ACCEPTED
    except RunnerError as error:
        print(f"sandbox_runner: {error}", file=sys.stderr)
        return RUNNER_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sandbox_runner", description=__doc__)
    commands = parser.add_subparsers(required=True)
    check = commands.add_parser("check", help="validate environment programs")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    check.add_argument("--json", action="store_true", help="one JSON object per file")
    check.set_defaults(run=_check)
    play = commands.add_parser(
        "play", help="play one; a line you type is boxed unless it is an action already"
    )
    play.add_argument("file", type=Path, metavar="FILE")
    play.add_argument("--seed", type=int, default=0)
    play.set_defaults(run=_play)
    doctor = commands.add_parser("doctor", help="say which layers of confinement this host has")
    doctor.add_argument("--json", action="store_true", help="one JSON object")
    doctor.set_defaults(run=_doctor)
    hostile = commands.add_parser("attack", help="run hostile programs beside healthy ones")
    hostile.add_argument("folder", type=Path, metavar="DIR", help="its *.py are the programs")
    hostile.add_argument("--json", action="store_true", help="one JSON object per program")
    hostile.set_defaults(run=_attack)
    figures = commands.add_parser("bench", help="measure what containment costs, as JSON lines")
    figures.set_defaults(run=_bench)
    for command in (check, play):
        command.add_argument("--max-turns", type=_positive, default=12, help="default 12")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"sandbox_runner: cannot read {path}: {error}", file=sys.stderr)
        return None


def _doctor(options: argparse.Namespace) -> int:
    """0 when untrusted programs may run here, 1 when not."""
    with BlockingPool(Limits(allow_missing=confine.ALLOWABLE)) as pool:
        report = pool.layers()
    safe = not confine.unmet(report)
    if options.json:
        print(json.dumps({"safe": safe, "layers": report}))
    else:
        for name, reason in report.items():
            print(f"{name:18} {_need(name):27} {f'missing: {reason}' if reason else 'present'}")
        print("safe" if safe else "not safe: a required layer is missing")
    return ACCEPTED if safe else REJECTED


def _need(layer: str) -> str:
    group = next((group for group in confine.REQUIRED if layer in group), ())
    others = [name for name in group if name != layer]
    return " ".join(["required", *(f"unless {name}" for name in others)]) if group else "wanted"


def _attack(options: argparse.Namespace) -> int:
    """0 when every healthy program survived untouched."""
    paths = sorted(options.folder.glob("*.py"))
    sources = [_read(path) for path in paths]
    if not paths:
        print(f"sandbox_runner: no *.py file in {options.folder}", file=sys.stderr)
    if not paths or None in sources:
        return USAGE
    with BlockingPool() as pool:
        attacks, harm = attack.run(pool, sources)
    for path, found in zip(paths, attacks, strict=True):
        if options.json:
            print(json.dumps({"file": str(path)} | asdict(found)))
        else:
            print(f"{path}: {found.layer}: {printable(found.outcome)}")
    for line in harm:
        print(f"HARM: {printable(line)}", file=sys.stderr)
    started = sum(found.started for found in attacks)
    print(
        f"{len(attacks)} programs, {started} started; healthy programs "
        f"{'HARMED' if harm else 'untouched'}", file=sys.stderr,
    )  # fmt: skip
    return REJECTED if harm else ACCEPTED


def _bench(options: argparse.Namespace) -> int:
    for row in bench.figures():
        print(json.dumps(row), flush=True)
    return ACCEPTED


def _check(options: argparse.Namespace) -> int:
    sources = [_read(path) for path in options.files]
    if None in sources:
        return USAGE
    with BlockingPool() as pool:
        verdicts = validate(pool, sources, options.max_turns)
    for path, verdict in zip(options.files, verdicts, strict=True):
        print(_report(path, verdict, options.json))
    return ACCEPTED if all(verdict.accepted for verdict in verdicts) else REJECTED


def _report(path: Path, verdict: Verdict, as_json: bool) -> str:
    if as_json:
        found = {"file": str(path), "verdict": "accept" if verdict.accepted else "reject"}
        return json.dumps(found | asdict(verdict))
    if verdict.accepted:
        return f"{path}: accepted"
    return f"{path}: {verdict.stage}: {printable(verdict.reason)}"


def _play(options: argparse.Namespace) -> int:
    source = _read(options.file)
    if source is None:
        return USAGE
    with BlockingPool() as pool:
        (session,) = pool.open([source], max_turns=options.max_turns)
        if isinstance(session, EnvError):
            return _broken(session)
        (start,) = pool.reset([(session, options.seed)])
        if isinstance(start, EnvError):
            return _broken(start)
        for tool in start.tools:
            print(printable(json.dumps(tool["function"], ensure_ascii=False)))
        print(printable(start.text))
        for line in sys.stdin:
            (result,) = pool.step([(session, as_action(line.rstrip("\n")))])
            if isinstance(result, EnvError):
                return _broken(result)
            print(printable(result.observation))
            if result.terminated or result.truncated:
                how = "terminated" if result.terminated else "truncated"
                print(f"[{how}, reward {result.reward:g}]")
                break
    return ACCEPTED


def _broken(error: EnvError) -> int:
    print(f"sandbox_runner: {printable(str(error))}", file=sys.stderr)
    return REJECTED

