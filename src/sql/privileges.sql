-- The only place with GRANT and REVOKE.
--
-- The database owner decides who uses the extension, as member of pg_database_owner and with GRANT
-- OPTION. Not the role that ran CREATE EXTENSION: the grants of a role are lost when a superuser
-- restores the dump, those of pg_database_owner arrive.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencing FROM PUBLIC;
GRANT USAGE ON SCHEMA fencing TO PUBLIC;
GRANT USAGE ON SCHEMA fencing TO pg_database_owner WITH GRANT OPTION;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fencing TO pg_database_owner WITH GRANT OPTION;

-- What reads only, and what needs the ownership of a table anyway.
GRANT EXECUTE ON FUNCTION fencing.lookup(text), fencing.bound(), fencing.unprotect(regclass) TO PUBLIC;

-- What a dump has to read.
GRANT SELECT ON fencing.fence, fencing.token_seq, fencing.origin_seq TO pg_database_owner;

-- What the monitoring reads.
GRANT USAGE ON SCHEMA fencing TO pg_monitor;
GRANT EXECUTE ON FUNCTION fencing.get_refusals(), fencing.get_stats() TO pg_monitor;
GRANT SELECT ON fencing.refusals, fencing.stats TO pg_monitor, pg_database_owner;
