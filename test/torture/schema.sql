-- schema.sql: the tables of the torture test. `own` resources are granted by the extension, `outside` ones are
-- advanced with tokens from elsewhere. Variables of psql: own, outside (how many of each).
CREATE EXTENSION IF NOT EXISTS fencing;

-- A sleeper's row lock must not stop the others for long; what it costs them is a 55P03.
SELECT format('ALTER DATABASE %I SET lock_timeout = %L', current_database(), '1s') \gexec

-- The life of the server: its timeline, as it is at the moment of the call.
CREATE FUNCTION life() RETURNS text LANGUAGE sql VOLATILE
	RETURN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);

-- One row for each resource: `seq` counts the transactions, each writes what it has read, plus one.
CREATE TABLE state (resource text PRIMARY KEY, outside boolean NOT NULL, seq bigint NOT NULL DEFAULT 0, op text,
	token bigint);
CREATE TABLE state_outside (LIKE state INCLUDING ALL);
-- Guarded by the token in the row alone.
CREATE TABLE state_row (resource text PRIMARY KEY, op text, token bigint);

-- Append only. part numbers the rows of a transaction; those from 100 on are written under a savepoint that is
-- rolled back.
CREATE TABLE log (op text, part int, resource text NOT NULL, token bigint, seq bigint, worker int NOT NULL,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(), life text NOT NULL DEFAULT life(), PRIMARY KEY (op, part));
CREATE TABLE log_outside (LIKE log INCLUDING ALL);
-- Not guarded: only bind protects it.
CREATE TABLE log_plain (LIKE log INCLUDING ALL);

-- What became of the token of a row, whoever changed it.
CREATE TABLE audit (relation text, resource text, old_token bigint, new_token bigint, op text);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO audit VALUES (TG_TABLE_NAME, new.resource, old.token, new.token, new.op);
	RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON state FOR EACH ROW EXECUTE FUNCTION audit();
CREATE TRIGGER audit AFTER UPDATE ON state_outside FOR EACH ROW EXECUTE FUNCTION audit();
CREATE TRIGGER audit AFTER UPDATE ON state_row FOR EACH ROW EXECUTE FUNCTION audit();

-- Before they are guarded: these rows carry no token yet.
INSERT INTO state (resource, outside) SELECT 'own-' || i, false FROM generate_series(1, :own) i;
INSERT INTO state_outside (resource, outside) SELECT 'outside-' || i, true FROM generate_series(1, :outside) i;
INSERT INTO state_row SELECT resource FROM state UNION ALL SELECT resource FROM state_outside;

SELECT fencing.protect('state', 'token', resource => '{resource}');
SELECT fencing.protect('log', 'token', resource => '{resource}');
SELECT fencing.protect('state_outside', 'token', resource => '{resource}', issuer => 'external');
SELECT fencing.protect('log_outside', 'token', resource => '{resource}', issuer => 'external');
SELECT fencing.protect('state_row', 'token');
