#!/usr/bin/env python3
"""measure.py: runs workloads on the server that the environment names, and writes report.md,
figures.csv and plots. Started by bench/run, which makes that server."""

import argparse
import os
from dataclasses import replace

import plot
import report
import workloads
from harness import Session, Size, measure


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--library", required=True, help="the compiled empty_trigger")
    parser.add_argument("--output", required=True, help="an existing folder")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of workloads.ALL; default: all")
    given = parser.parse_args()
    for name in given.names:
        if name not in workloads.ALL:
            parser.error(f"there is no {name}; there are {', '.join(workloads.ALL)}")
    return given


def size_of(given):
    size = Size(
        rounds=9,
        rows=1_000_000,
        seconds=3,
        calls=0,
        hand_overs=100,
        waiters=100,
        resources=1_000_000,
        renewals=100_000,
        warm_up=True,
    )
    if given.full:
        size = replace(size, resources=10_000_000, renewals=1_000_000)
    if given.quick:
        size = Size(
            rounds=1,
            rows=5_000,
            seconds=0,
            calls=128,
            hand_overs=3,
            waiters=10,
            resources=10_000,
            renewals=2_000,
            warm_up=False,
        )
    return replace(size, rounds=given.rounds) if given.rounds else size


def conditions(session, size):
    return (
        f"PostgreSQL {session.query('SHOW server_version')}, {os.cpu_count()} processors; "
        f"medians of {size.rounds} interleaved rounds, ratios within each round, pgbench for "
        f"{size.load()} with prepared statements\n"
    )


def main():
    given = arguments()
    size = size_of(given)
    session = Session()
    session.query("CREATE EXTENSION fencing")

    results = []
    with open(os.path.join(given.output, "report.md"), "w", encoding="utf-8") as file:

        def tell(text):
            print(text, flush=True)
            print(text, file=file, flush=True)

        tell(conditions(session, size))
        for name in given.names or workloads.ALL:
            for workload in workloads.ALL[name](session, size, given.library):
                results.append(measure(workload, size))
                tell(report.markdown(results[-1]))
        names = plot.plot(given.output, results)
        file.write("".join(f"![{name}]({name})\n" for name in names))
    report.write_csv(os.path.join(given.output, "figures.csv"), results)


if __name__ == "__main__":
    main()
