"""One module for each feature. Each workload is a function of (session, size, library): it prepares
its tables and yields harness.Workload objects, to be measured before the next is asked for."""

from workloads import bulk, growth, guard, handover, lease, storm, token

ALL = {
    "bulk_update": bulk.update,
    "bulk_write": bulk.write,
    "guard_single": guard.single,
    "guard_many": guard.many,
    "acquire": lease.acquire,
    "next_token": token.next_token,
    "hand_over": handover.hand_over,
    "refusal_storm": storm.refusal_storm,
    "growth": growth.growth,
    "renewals": growth.renewals,
}
