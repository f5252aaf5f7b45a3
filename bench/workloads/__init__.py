"""One module for each feature; each workload is a function of (session, size, library) that prepares
its tables and yields harness.Workload objects, to be measured before the next one is asked for."""

from workloads import guard, lease, token

ALL = {
    "guard_bulk": guard.bulk,
    "guard_single": guard.single,
    "acquire": lease.acquire,
    "next_token": token.next_token,
}
