-- What 1.1 has brought. An upgrade may touch nothing else: what was granted or revoked since the install stays.

REVOKE ALL ON FUNCTION fencing.epoch(), fencing.guard_options(oid, bytea), fencing.verify(), fencing.get_refusals(),
    fencing.get_stats(), fencing.get_bindings(), fencing.evict(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fencing.epoch(), fencing.guard_options(oid, bytea), fencing.verify(), fencing.get_refusals(),
    fencing.get_stats(), fencing.get_bindings(), fencing.evict(text) TO pg_database_owner WITH GRANT OPTION;

-- A view reads with the rights of its owner, who is a superuser; its functions run with those of who asks.
GRANT EXECUTE ON FUNCTION fencing.epoch(), fencing.guard_options(oid, bytea), fencing.verify(), fencing.get_refusals(),
    fencing.get_stats(), fencing.get_bindings() TO pg_monitor;
GRANT SELECT ON fencing.leases, fencing.guards, fencing.refusals, fencing.stats TO pg_monitor;
GRANT SELECT ON fencing.leases, fencing.guards, fencing.refusals, fencing.stats TO pg_database_owner WITH GRANT OPTION;
