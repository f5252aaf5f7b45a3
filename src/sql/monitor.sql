-- What is kept in shared memory: refusals and counters.

CREATE FUNCTION fencing.get_refusals(OUT refused_at timestamptz, OUT database name, OUT relation text, OUT resource text,
    OUT presented_token bigint, OUT current_token bigint, OUT sqlstate text, OUT mode text, OUT role name,
    OUT application_name text, OUT client_addr inet, OUT pid integer) RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'fencing_get_refusals';
COMMENT ON FUNCTION fencing.get_refusals() IS
'What fencing.refusals shows. For members of pg_read_all_stats (pg_monitor is one) of every database, for others with EXECUTE of this one. Errors: 55000 without shared memory.';

CREATE VIEW fencing.refusals AS SELECT * FROM fencing.get_refusals();
COMMENT ON VIEW fencing.refusals IS
'The last 1024 refusals of the server, newest first, kept over the rollback that they cause until the server stops. relation: NULL where the token was refused by bind() or at COMMIT. presented_token, current_token: NULL where there is none. mode: enforce, or observe for what was only warned of. role: of the session, or as SET ROLE says. client_addr: NULL for a connection by socket. Needs fencing in shared_preload_libraries before PostgreSQL 17, else 55000.';

CREATE FUNCTION fencing.get_stats(OUT relation regclass, OUT grants bigint, OUT renewals_lost bigint, OUT refusals bigint,
    OUT observed bigint, OUT seals bigint, OUT escalations bigint) RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'fencing_get_stats';
COMMENT ON FUNCTION fencing.get_stats() IS
'What fencing.stats shows. Errors: 55000 without shared memory.';

CREATE VIEW fencing.stats AS SELECT * FROM fencing.get_stats();
COMMENT ON VIEW fencing.stats IS
'Counters of this database since the server started. A row for each table that has refused or observed a write, and one with relation NULL for all else: grants, renewals_lost (renew() returned NULL), refusals and observed (TK001, TK002, TK003 as error or as WARNING), seals (transactions whose tokens were checked at COMMIT or PREPARE), escalations (those of them with so many resources that whole buckets were locked). All are counted when they happen, also in a transaction that rolls back. A table beyond the first 1024 of the server is counted in the row with NULL. Needs fencing in shared_preload_libraries before PostgreSQL 17, else 55000.';
