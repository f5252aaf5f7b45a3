"""harness.py: the server as a workload sees it, and the rounds in which contenders take turns."""

import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Size:
    """How much of everything: --quick proves that it works, the default measures, --full is the
    growth of a large installation."""

    rounds: int
    rows: int  # of a bulk statement
    seconds: int  # of one run under load, after one to connect; 0: only so many calls:
    calls: int  # in sum of all clients
    hand_overs: int
    waiters: int
    resources: int  # of the larger of two databases
    renewals: int
    warm_up: bool  # a round that does not count

    def load(self):
        return f"{self.seconds} s" if self.seconds else f"{self.calls} calls"


@dataclass(frozen=True)
class Goal:
    bound: float
    at_most: bool

    def __str__(self):
        return f"{'≤' if self.at_most else '≥'} {self.bound:.2f}"

    def met_by(self, ratio):
        return ratio <= self.bound if self.at_most else ratio >= self.bound


def at_most(bound):
    return Goal(bound, at_most=True)


def at_least(bound):
    return Goal(bound, at_most=False)


@dataclass(frozen=True)
class Comparison:
    """The ratio of two contenders, taken within each round; the goal is for the first metric."""

    of: str
    to: str
    goal: Goal | None = None

    def __str__(self):
        return f"{self.of} / {self.to}"

    def names(self):
        return [self.of, self.to]

    def value(self, figure):
        """What a round says, by the figures of its contenders."""
        return figure(self.of) / figure(self.to)


@dataclass(frozen=True)
class Level(Comparison):
    """The figure itself, for a goal that is no ratio."""

    def __str__(self):
        return self.of

    def names(self):
        return [self.of]

    def value(self, figure):
        return figure(self.of)


@dataclass(frozen=True)
class Overhead(Comparison):
    """The same, of what both take beyond a third."""

    beyond: str = ""

    def __str__(self):
        return f"{self.of} / {self.to}, both beyond {self.beyond}"

    def names(self):
        return [self.of, self.to, self.beyond]

    def value(self, figure):
        base = figure(self.beyond)
        return (figure(self.of) - base) / (figure(self.to) - base)


@dataclass(frozen=True)
class Difference(Comparison):
    """What the one takes beyond the other, in the unit of the metric."""

    def __str__(self):
        return f"{self.of} - {self.to}"

    def value(self, figure):
        return figure(self.of) - figure(self.to)


@dataclass(frozen=True)
class Workload:
    """Contenders do the same job in different ways; each call is one run and returns its figures,
    {metric: value}, a metric being a name with its unit."""

    title: str
    contenders: dict[str, Callable[[], dict[str, float]]]
    comparisons: list[Comparison]
    before_round: Callable[[], None] = lambda: None
    notes: dict[str, str] = field(default_factory=dict)  # of contenders, under the heading note
    note: str = ""
    family: str = ""  # workloads that differ in one number share a plot over it
    number: tuple[str, int] | None = None  # what it is, and which


@dataclass
class Result:
    workload: Workload
    figures: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # (contender, metric)

    def metrics(self):
        return list(dict.fromkeys(metric for _, metric in self.figures))

    def has(self, comparison, metric):
        return all((name, metric) in self.figures for name in comparison.names())

    def ratios(self, comparison, metric):
        rounds = range(len(self.figures[comparison.of, metric]))
        return [
            comparison.value(lambda name, number=number: self.figures[name, metric][number])
            for number in rounds
        ]


def measure(workload, size):
    """A round to warm up, then those that count. The order rotates: none is always first."""
    result = Result(workload)
    names = list(workload.contenders)
    start = time.monotonic()
    for number in range(0 if size.warm_up else 1, size.rounds + 1):
        workload.before_round()
        first = number % len(names)
        for name in names[first:] + names[:first]:
            _progress(f"{workload.title}: round {number} of {size.rounds}, {name}")
            for metric, value in workload.contenders[name]().items():
                if number > 0:
                    result.figures.setdefault((name, metric), []).append(value)
    _progress("", f"{time.monotonic() - start:.0f} s: {workload.title}")
    return result


def _progress(text, done=""):
    """On a terminal a line that changes; elsewhere a line for each workload that is done."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif done:
        print(done, file=sys.stderr, flush=True)


class Session:
    """One backend, driven through psql."""

    END = "-- end of answer --"

    def __init__(self, database="postgres"):
        self.psql = subprocess.Popen(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", database],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.backend = int(self.query("SELECT pg_backend_pid()"))

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()

    def query(self, sql):
        """The answer as psql prints it; whatever goes wrong ends the benchmark."""
        self.psql.stdin.write(f"{sql};\n\\echo {self.END}\n")
        self.psql.stdin.flush()
        answer = []
        for line in self.psql.stdout:
            if line.rstrip("\n") == self.END:
                return "".join(answer).strip()
            answer.append(line)
        raise RuntimeError(f"failed: {sql}")

    def timed(self, sql):
        """Elapsed time, and the time that the backend was on a processor."""
        cpu, start = self.cpu_ms(), time.perf_counter()
        self.query(sql)
        elapsed = (time.perf_counter() - start) * 1000
        return {"ms": elapsed, "CPU ms": self.cpu_ms() - cpu}

    def cpu_ms(self):
        with open(f"/proc/{self.backend}/schedstat", encoding="ascii") as times:
            return int(times.read().split()[0]) / 1e6


def client_share(cpu_seconds, elapsed):
    """How busy the clients keep this machine: a rate is theirs when they need it all."""
    return 100 * cpu_seconds / elapsed / os.cpu_count()


def pgbench(
    script, clients, size, synchronous_commit="on", options="", database="postgres", environment=None
):
    """Transactions per second and the clients' share of the processors; and how many there were.

    The first second does not count: in it, many clients connect, load the library and fill their
    caches, which workers with a pool of connections do once."""
    extent = f"-T {size.seconds + 1} -P 1" if size.seconds else f"-t {max(size.calls // clients, 1)}"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        f"pgbench -n -M prepared -c {clients} {extent} -f - {database}".split(),
        input=script,
        env={
            **os.environ,
            **(environment or {}),
            "PGOPTIONS": f"-c synchronous_commit={synchronous_commit} {options}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    rate = re.search(r"^tps = ([\d.]+)", done.stdout, re.M)
    count = re.search(r"actually processed: (\d+)", done.stdout)
    if done.returncode or not rate:
        raise RuntimeError(f"pgbench failed: {done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures = {
        "per second": _settled_rate(done.stderr) if size.seconds else float(rate.group(1)),
        "client CPU %": client_share(cpu, elapsed),
    }
    return figures, int(count.group(1))


def _settled_rate(progress):
    """Of the seconds after the first, by the lines in which pgbench tells of each."""
    lines = re.findall(r"^progress: ([\d.]+) s, ([\d.]+) tps", progress, re.M)
    told = [(float(at), float(rate)) for at, rate in lines]
    transactions = sum(rate * (at - earlier) for (earlier, _), (at, rate) in zip(told, told[1:]))
    return transactions / (told[-1][0] - told[0][0])
