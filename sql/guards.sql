-- The view guards: every table with a guard, its options, its state, for pg_monitor and the owner of the database.
-- In a database of its own: other tests have guards, too.
SELECT current_database() AS home \gset
CREATE ROLE regress_fencing_owner;
CREATE ROLE regress_fencing_monitor IN ROLE pg_monitor;
CREATE ROLE regress_fencing_stranger;
CREATE DATABASE regress_fencing_guards OWNER regress_fencing_owner;
\c regress_fencing_guards
\set SHOW_CONTEXT never
SET SESSION AUTHORIZATION regress_fencing_owner;
CREATE EXTENSION fencing;
CREATE SCHEMA app;
SET search_path = app;
TABLE fencing.guards;

CREATE TABLE account (id int PRIMARY KEY, fence_token bigint);
CREATE TABLE "Odd Task" (id int, "job=id" text, "to=ken" bigint, "ä\b" text);
CREATE TABLE shard (id int, seen int);
CREATE TABLE plain (id int, fence_token bigint);
SELECT fencing.protect('account', 'fence_token');
SELECT fencing.protect('"Odd Task"', 'to=ken', 'a{{b}}-{job=id}/{ä\b}', source => 'transaction', missing => 'allow', mode => 'observe');
SELECT fencing.protect('shard', resource => 'shard-{id}', issuer => 'external');
SELECT * FROM fencing.guards ORDER BY relation::text COLLATE "C" \gx

-- Partitions at every depth have a row of their own.
CREATE TABLE part (id int, region text, fence_token bigint) PARTITION BY LIST (region);
CREATE TABLE part_eu PARTITION OF part FOR VALUES IN ('eu') PARTITION BY RANGE (id);
CREATE TABLE part_eu_1 PARTITION OF part_eu FOR VALUES FROM (1) TO (100);
SELECT fencing.protect('part', 'fence_token');
CREATE TABLE part_us PARTITION OF part FOR VALUES IN ('us');
ALTER TABLE part_eu_1 DISABLE TRIGGER zz_fencing_guard;
ALTER TABLE part_eu ENABLE REPLICA TRIGGER zz_fencing_guard_truncate;
ALTER TABLE account ENABLE ALWAYS TRIGGER zz_fencing_guard;
SELECT relation, partition_of, token_column, row_state, truncate_state, fires_last FROM fencing.guards
WHERE token_column = 'fence_token' ORDER BY relation::text COLLATE "C";

-- What can change a row after the guard has checked it.
CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER zz_before BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION change();
CREATE TRIGGER zzz_after AFTER UPDATE ON account FOR EACH ROW EXECUTE FUNCTION change();
CREATE TRIGGER zzz_statement BEFORE UPDATE ON account EXECUTE FUNCTION change();
CREATE TRIGGER zzz_delete BEFORE DELETE ON account FOR EACH ROW EXECUTE FUNCTION change();
SELECT fires_last FROM fencing.guards WHERE relation = 'account'::regclass;
CREATE TRIGGER zzz_late BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION change();
SELECT fires_last FROM fencing.guards WHERE relation = 'account'::regclass;
ALTER TABLE account DISABLE TRIGGER zzz_late;
SELECT fires_last FROM fencing.guards WHERE relation = 'account'::regclass;

-- Written by hand, in any way: nothing makes the view fail.
CREATE TRIGGER a_guard BEFORE INSERT OR UPDATE OR DELETE ON plain FOR EACH ROW EXECUTE FUNCTION fencing.guard();
CREATE TRIGGER b_guard BEFORE INSERT OR UPDATE OR DELETE ON plain FOR EACH ROW EXECUTE FUNCTION fencing.guard('no_column');
CREATE TRIGGER c_guard BEFORE INSERT OR UPDATE OR DELETE ON plain FOR EACH ROW EXECUTE FUNCTION fencing.guard('fence_token', 'mode=later');
CREATE TRIGGER d_guard BEFORE INSERT OR UPDATE OR DELETE ON plain FOR EACH ROW EXECUTE FUNCTION fencing.guard('resource={id', 'fence_token');
CREATE TRIGGER e_guard BEFORE INSERT OR UPDATE OR DELETE ON plain FOR EACH ROW EXECUTE FUNCTION fencing.guard('resource={id}-{gone}');
CREATE TRIGGER f_guard BEFORE INSERT OR UPDATE OR DELETE ON plain FOR EACH ROW EXECUTE FUNCTION fencing.guard('fence_token', 'other_token');
CREATE TRIGGER g_guard BEFORE INSERT OR UPDATE OR DELETE ON plain FOR EACH ROW EXECUTE FUNCTION fencing.guard('fence_token', '');
SELECT guard, truncate_state, fault FROM fencing.guards WHERE relation = 'plain'::regclass ORDER BY guard;
SELECT * FROM fencing.guard_options(0, NULL);
SELECT * FROM fencing.guard_options('plain'::regclass, '');
SELECT * FROM fencing.guard_options('plain'::regclass, 'fence_token');
SELECT token_column, fault FROM fencing.guard_options(0, 'fence_token\000');

-- Who may read it.
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_fencing_monitor;
SET search_path = '';
SELECT relation, mode FROM fencing.guards WHERE mode = 'observe';
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION regress_fencing_stranger;
\set VERBOSITY sqlstate
SELECT count(*) FROM fencing.guards;
SELECT * FROM fencing.guard_options(0, NULL);
RESET SESSION AUTHORIZATION;

\c :home
DROP DATABASE regress_fencing_guards;
DROP ROLE regress_fencing_owner, regress_fencing_monitor, regress_fencing_stranger;
