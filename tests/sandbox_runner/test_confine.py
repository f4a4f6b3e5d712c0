"""The layers: what a program can no longer do, tried from inside a real child."""

import os
import select
import socket
import struct
import textwrap
import time
from pathlib import Path

import pytest

from sandbox_runner import (
    ConfinementError,
    EnvError,
    Limits,
    Observation,
    zygote,
)
from sandbox_runner.child_process import NOT_CONFINED
from sandbox_runner.confine import (
    LAYERS,
    Host,
    insist,
    landlock,
    layers,
    process,
    seccomp,
    syscalls,
    unmet,
)

PROGRAM = """
import ctypes, os, signal, socket, subprocess, sys, threading
LIBC = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(number, *arguments):
    return checked(LIBC.syscall(number, *arguments))
class AttackEnv:
    def __init__(self, max_turns=3, **kwargs):
        self.max_turns = max_turns
    def attack(self):
{attack}
    def reset(self, seed=None):
        try:
            return f"ESCAPED: {{self.attack()}}", {{}}
        except Exception as error:
            return f"{{type(error).__name__}} {{getattr(error, 'errno', None)}}", {{}}
    def step(self, action):
        return "done", 0.0, True, False, {{}}
"""
EPERM, ENOENT, EACCES, ENOTTY = 1, 2, 13, 25
REPOSITORY = Path(__file__).parents[2]
REFUSED = (f"PermissionError {EPERM}",)
CLOSED = (f"PermissionError {EACCES}", f"FileNotFoundError {ENOENT}")

# attack -> what the program may see. Paths, numbers and flags are those of x86-64 and ARM alike.
ATTACKS = {
    "read a file of the machine": ("return open('/etc/passwd').read()", CLOSED),
    "read the repository": (f"return open({str(REPOSITORY / 'README.md')!r}).read()", CLOSED),
    "list the repository": (f"return os.listdir({str(REPOSITORY)!r})", CLOSED),
    "read another process": ("return open('/proc/1/environ').read()", CLOSED),
    "read its own memory map": ("return open('/proc/self/maps').read()", CLOSED),
    "list the root folder": ("return os.listdir('/')", CLOSED),
    "write a file": ("return open('/tmp/spade_escape', 'w')", REFUSED),
    "write below a folder it may read": (
        "return open(os.path.dirname(os.__file__) + '/escape.py', 'w')", REFUSED
    ),
    "append to a module": ("return open(os.__file__, 'a')", REFUSED),
    "remove a file": ("return os.remove(os.__file__)", REFUSED),
    "make a folder": ("return os.mkdir('/tmp/spade_escape')", REFUSED),
    "link": ("return os.symlink('/etc/passwd', '/tmp/spade_escape')", REFUSED),
    "change a mode": ("return os.chmod(os.__file__, 0o777)", REFUSED),
    "open a TCP socket": ("return socket.socket()", REFUSED),
    "open a local socket": ("return socket.socket(socket.AF_UNIX)", REFUSED),
    "make a pair of sockets": ("return socket.socketpair()", REFUSED),
    "fork": ("return os.fork()", REFUSED),
    "run a shell": ("return os.execv('/bin/sh', ['sh'])", REFUSED),
    "run a command": ("return subprocess.run(['true'])", REFUSED),
    "spawn": ("return os.posix_spawn('/bin/true', ['true'], {})", REFUSED),
    "start a thread": (
        "return threading.Thread(target=print).start()", ("RuntimeError None",)
    ),
    "signal its parent": ("return os.kill(os.getppid(), signal.SIGKILL)", REFUSED),
    "signal everybody": ("return os.kill(-1, signal.SIGKILL)", REFUSED),
    "signal its group": ("return os.killpg(0, signal.SIGKILL)", REFUSED),
    "signal by pidfd": ("return os.pidfd_open(os.getppid())", REFUSED),
    "trace": ("return checked(LIBC.ptrace(0, 0, 0, 0))", REFUSED),
    "make memory executable": (
        "import mmap; return mmap.mmap(-1, 4096, prot=mmap.PROT_READ | 4)", REFUSED
    ),
    "type into a terminal": (
        "import fcntl; return fcntl.ioctl(3, 0x5412, b'x')", (f"OSError {ENOTTY}",)
    ),
    "use io_uring": ("return call(425, 1, 0)", REFUSED),
    "enter a namespace": ("return checked(LIBC.unshare(0x10000000))", REFUSED),
    "mount": ("return checked(LIBC.mount(b'none', b'/tmp', b'tmpfs', 0, None))", REFUSED),
    "change the root": ("return os.chroot('/tmp')", REFUSED),
    "change its user": ("return os.setuid(0)", REFUSED),
    "raise its limits": (
        "import resource; return resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
        ("ValueError None", *REFUSED),
    ),
    "become dumpable": ("return checked(LIBC.prctl(4, 1, 0, 0, 0))", REFUSED),
    "outlive its parent": ("return checked(LIBC.prctl(1, 0, 0, 0, 0))", REFUSED),
    "hide code in a memory file": ("return os.memfd_create('x')", REFUSED),
    "lower its nice value": ("return os.nice(-5)", REFUSED),
    "make a session": ("return os.setsid()", REFUSED),
    "load an extension": (
        "return ctypes.CDLL('libanl.so.1')", ("OSError None",)
    ),
    "share memory": ("return checked(LIBC.shmget(0, 4096, 0o1600))", REFUSED),
    "ask for the limits of its parent": (
        "import resource; return resource.prlimit(os.getppid(), resource.RLIMIT_CPU)", REFUSED
    ),
    "read the clock of its parent": (
        "import time; return time.clock_gettime((~os.getppid() << 3) | 2)", REFUSED
    ),
    "send a byte out of band": ("return call(44, 3, b'x', 1, 1, None, 0)", REFUSED),
    "set the clock": ("import time; return time.clock_settime(time.CLOCK_REALTIME, 0)", REFUSED),
}  # fmt: skip



def program_of(code):
    return PROGRAM.format(attack=textwrap.indent(textwrap.dedent(code), " " * 8))


HEALTHY = program_of("raise ValueError('no attack')")


@pytest.fixture(scope="module")
def answers(pool):
    """What each attack saw, played in one batch beside a healthy program."""
    sources = [program_of(code) for code, _ in ATTACKS.values()]
    sessions = pool.open([*sources, HEALTHY])
    assert not [session for session in sessions if isinstance(session, EnvError)]
    seen = pool.reset([(session, 0) for session in sessions])
    healthy = pool.step([(sessions[-1], r"\boxed{1}")])
    pool.close(sessions)
    assert healthy[0].observation == "done"
    return dict(zip(ATTACKS, seen, strict=False))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_fails_with_an_error_that_the_program_sees(answers, name):
    answer = answers[name]
    assert isinstance(answer, Observation), answer
    assert answer.text in ATTACKS[name][1]


def test_what_environments_do_still_works(pool):
    honest = """
        import array, csv, decimal, io, sqlite3, time, zlib
        import numpy as np
        from xml.etree import ElementTree
        time.sleep(0.01)
        rows = list(csv.reader(io.StringIO("a,b")))
        big = np.linalg.solve(np.eye(3), np.ones(3)).sum() + np.fft.fft(np.ones(4)).real.sum()
        draw = np.random.default_rng(3).integers(5)
        import calendar, turtledemo
        db = sqlite3.connect(":memory:").execute("select 1 + 1").fetchone()
        return f"{rows} {big} {draw} {db} {verify(parse('$1/2$'), parse('$0.5$'))}"
    """
    (session,) = pool.open([program_of(honest)])
    (answer,) = pool.reset([(session, 0)])
    pool.close([session])
    assert answer.text == "ESCAPED: [['a', 'b']] 7.0 4 (2,) True"


def test_this_host_has_the_layers_and_the_pool_says_so(pool):
    report = pool.layers()
    assert set(report) == {"namespaces", "private_root", *(layer.name for layer in LAYERS)}
    assert not unmet(report)


def test_below_the_minimum_a_host_is_refused_unless_a_layer_is_allowed_by_name():
    report = dict.fromkeys(["private_root", *(layer.name for layer in LAYERS)], "")
    insist(report | {"landlock": "Function not implemented", "namespaces": "forbidden"}, ())
    insist(report | {"private_root": "forbidden"}, ())
    neither = report | {"landlock": "Function not implemented", "private_root": "forbidden"}
    with pytest.raises(ConfinementError, match="landlock: Function not implemented"):
        insist(neither, ())
    with pytest.raises(ConfinementError, match="landlock"):
        insist(neither, ("seccomp",))
    insist(neither, ("landlock",))
    insist(neither, ("private_root",))
    with pytest.raises(ConfinementError, match="seccomp: not tried"):
        insist({name: "" for name in report if name != "seccomp"}, ())


@pytest.fixture
def host():
    """What a zygote would have made, without leaving this process's files."""
    proc, null = os.open("/proc", os.O_PATH), os.open("/dev/null", os.O_RDWR)
    rules = landlock.ruleset(layers.readable_folders())
    yield Host(
        Limits(), os.getuid() == 0, os.getpid(), proc, null, rules, seccomp.Filter(), 1 << 30
    )
    for descriptor in (proc, null, rules):
        os.close(descriptor)


@pytest.mark.parametrize(
    ("module", "function", "name"),
    [
        (seccomp.Filter, "install", "seccomp"),
        (landlock, "restrict", "landlock"),
        (process, "keep_only", "descriptors"),
        (process, "limit_resources", "limits"),
        (process, "not_dumpable", "not_dumpable"),
        (process, "no_new_privileges", "no_new_privileges"),
        (process, "die_with_parent", "parent_death"),
    ],
)
def test_a_layer_that_is_off_is_noticed(monkeypatch, host, module, function, name):
    """The probes are worth something: without its deed every one of them fails."""
    monkeypatch.setattr(module, function, lambda *_: None)
    known = {"namespaces": "not here", "private_root": "not here", "user": "", "capabilities": ""}
    # What later layers need of earlier ones, when these are the ones to be missing.
    others = {layer.name: "left out" for layer in LAYERS if layer.name not in (name, *NEEDED)}
    found = layers._try_in_a_child(host, known | others)
    assert found[name] in ("not in force", "the process that tried it ended"), found


NEEDED = ("no_new_privileges",)


def run(program, number, arguments, arch):
    """What the filter answers: a plain interpreter of the few instructions it uses."""
    values = {0: number, 4: arch}
    for index, argument in enumerate(arguments):
        values[16 + 8 * index] = argument & 0xFFFFFFFF
        values[20 + 8 * index] = argument >> 32 & 0xFFFFFFFF
    at, loaded = 0, 0
    while True:
        code, yes, no, operand = program[at]
        if code == 0x06:
            return operand
        if code == 0x20:
            loaded, at = values[operand], at + 1
            continue
        tests = {0x15: loaded == operand, 0x35: loaded >= operand, 0x45: bool(loaded & operand)}
        at += 1 + (yes if tests[code] else no)


@pytest.mark.parametrize("machine, arch", [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_the_filter_decides_by_call_and_argument_on_both_architectures(monkeypatch, machine, arch):
    monkeypatch.setattr(syscalls.platform, "machine", lambda: machine)
    made, allow, kill = seccomp.program(pid=77), 0x7FFF0000, 0x80000000

    def answer(name, *arguments):
        number = syscalls.NUMBERS[name][machine == "aarch64"]
        return run(made, number, (*arguments, 0, 0, 0, 0, 0, 0)[:6], arch)

    def refusal(code):
        return 0x00050000 | code

    assert answer("read") == answer("getrandom") == allow
    for name in ("socket", "ptrace", "execve", "io_uring_setup", "memfd_create", "unshare"):
        assert answer(name) == refusal(EPERM)
    assert answer("openat", 0, 0, os.O_RDONLY | os.O_CLOEXEC) == allow
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND, os.O_TMPFILE):
        assert answer("openat", 0, 0, flags) == refusal(EPERM)
    assert answer("openat", 0, 0, os.O_DIRECTORY) == allow
    assert answer("mmap", 0, 4096, 3) == allow
    assert answer("mmap", 0, 4096, 5) == answer("mprotect", 0, 0, 4) == refusal(EPERM)
    assert answer("kill", 77, 9) == answer("tgkill", 77, 78, 6) == allow
    for victim in (1, 78, (1 << 64) - 1, 0):
        assert answer("kill", victim, 9) == refusal(EPERM)
    assert answer("prlimit64", 0, 7, 0, 1 << 40) == allow
    assert answer("prlimit64", 0, 7, 1 << 40) == answer("prlimit64", 0, 7, 8) == refusal(EPERM)
    assert answer("prlimit64", 77, 7, 0) == answer("sched_getaffinity", 77) == allow
    assert answer("prlimit64", 78, 7, 0) == answer("sched_getaffinity", 78) == refusal(EPERM)
    assert answer("clock_gettime", 2) == allow
    assert answer("clock_gettime", (~78 << 3) | 2) == refusal(EPERM)
    assert answer("madvise", 0, 4096, 4) == allow
    assert answer("madvise", 0, 4096, 100) == refusal(EPERM)  # MADV_HWPOISON
    assert answer("fcntl", 3, 1) == answer("fcntl", 3, 1030) == allow
    assert answer("fcntl", 3, 1033) == refusal(EPERM)  # F_ADD_SEALS, as one of the rest
    assert answer("ioctl", 3, 0x5412) == refusal(ENOTTY)
    assert run(made, 0, (0,) * 6, 0x40000003) == kill  # 32-bit calls
    assert run(made, 0x40000000 | 39, (0,) * 6, arch) == kill  # x32


def test_an_unknown_machine_is_not_guessed_at(monkeypatch):
    monkeypatch.setattr(syscalls.platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        seccomp.program(1)


def test_a_child_that_cannot_put_on_a_layer_runs_nothing_and_its_zygote_knows(monkeypatch, host):
    def broken(_):
        raise OSError("no memory just now")

    monkeypatch.setattr(seccomp.Filter, "install", broken)
    monkeypatch.setattr(zygote.child, "serve", lambda *_: os._exit(0))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = zygote.Zygote(theirs.detach(), host, None, {layer.name: "" for layer in LAYERS})
    made._fork(1, os.dup(host.null))
    data, pidfds, _, _ = socket.recv_fds(ours, 100, 1)
    pid = int.from_bytes(data[5:], "big")
    select.select(pidfds, [], [], 10.0)
    made._serve(b"S" + struct.pack(">II", 2, pid), [])
    assert ours.recv(100) == b"S" + struct.pack(">Ii", 2, NOT_CONFINED)
    os.close(pidfds[0])
    ours.close()
    made._socket.close()


def test_a_child_stands_first_in_line_when_memory_runs_out_and_its_zygote_does_not(host):
    own = Path("/proc/self/oom_score_adj").read_text()
    with process.first_victim(host.proc):
        pid = os.fork()
        if pid == 0:
            score = Path("/proc/self/oom_score_adj").read_text().strip()
            os._exit(0 if score == "1000" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert Path("/proc/self/oom_score_adj").read_text() == own


ENDED = {
    "an unnamed signal": ("os.kill(os.getpid(), 40); return 1", "signal 40"),
    "a huge answer to a reset": (
        "os.write(3, (15 << 20).to_bytes(4, 'big') + bytes(1 << 20)); return 1", "spoke out of turn"
    ),
    "computing after its answer": (
        "import signal\n"
        "def burn(*_):\n"
        "    while True: pass\n"
        "signal.signal(signal.SIGALRM, burn)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05); return 1", "went on computing"
    ),
    "half an answer to no request": (
        "import signal\n"
        "def later(*_): os.write(3, bytes(100))\n"
        "signal.signal(signal.SIGALRM, later)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05); return 1", "without a request"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDED)
def test_a_child_that_misbehaves_is_ended_and_its_neighbour_is_not(pool, name):
    code, reason = ENDED[name]
    bad, good = pool.open([program_of(code), HEALTHY])
    (first,) = pool.reset([(bad, 0)])
    if not isinstance(first, EnvError):  # it answered, and does the rest while nobody asks
        deadline = time.monotonic() + 20.0
        while not isinstance(first, EnvError) and time.monotonic() < deadline:
            time.sleep(0.1)
            pool.reset([(good, 0)])
            (first,) = pool.reset([(bad, 0)]) if pool.lost(bad) else (first,)
    assert isinstance(first, EnvError) and reason in first.detail, first
    (answer,) = pool.reset([(good, 1)])
    assert isinstance(answer, Observation)
    pool.close([bad, good])


def test_signals_cannot_fill_the_queue_of_the_user(pool):
    code = """
        import ctypes
        wanted = signal.SIGRTMIN + 3
        signal.pthread_sigmask(signal.SIG_BLOCK, [wanted])
        for _ in range(2000):
            LIBC.kill(os.getpid(), wanted)
        import resource
        return resource.getrlimit(resource.RLIMIT_SIGPENDING)
    """
    (session,) = pool.open([program_of(code)])
    (answer,) = pool.reset([(session, 0)])
    assert answer.text == "ESCAPED: (0, 0)"
    pool.close([session])


def test_a_source_that_cannot_be_sent_is_its_own_fault_alone(pool):
    bad, good, large = pool.open(["x = '\ud800'", HEALTHY, "#" * (2 << 20)])
    assert bad.stage == large.stage == "parse"
    assert "surrogate" in bad.detail and "bytes" in large.detail
    (answer,) = pool.reset([(good, 0)])
    assert isinstance(answer, Observation)
    pool.close([good])
