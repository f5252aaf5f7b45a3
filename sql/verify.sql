-- verify: each gap is found, and only that; and the statement that it names cures it.
-- In a database of its own, since it looks at all of it.
SELECT current_database() AS home \gset
CREATE ROLE regress_fencing_owner;
CREATE ROLE regress_fencing_monitor IN ROLE pg_monitor;
CREATE ROLE regress_fencing_stranger;
CREATE DATABASE regress_fencing_verify OWNER regress_fencing_owner;
\c regress_fencing_verify
\set SHOW_CONTEXT never
SET SESSION AUTHORIZATION regress_fencing_owner;
CREATE EXTENSION fencing;
SELECT * FROM fencing.verify();

-- Everything that is sound: each kind of guard, partitions at every depth, children with guards of their own, triggers
-- that fire where they change nothing, grants to roles, an ALWAYS that is one everywhere.
CREATE SCHEMA app;
CREATE TABLE app.account (id int PRIMARY KEY, fence_token bigint);
CREATE TABLE app.task (id int PRIMARY KEY, job_id int, fence_token bigint);
CREATE TABLE app.shard (id int, seen int);
CREATE TABLE app."Odd Part" (id int, region text, fence_token bigint) PARTITION BY LIST (region);
CREATE TABLE app.part_eu PARTITION OF app."Odd Part" FOR VALUES IN ('eu') PARTITION BY RANGE (id);
CREATE TABLE app.part_eu_1 PARTITION OF app.part_eu FOR VALUES FROM (1) TO (100);
CREATE TABLE app.parent (id int, fence_token bigint);
CREATE TABLE app.child () INHERITS (app.parent);
CREATE TABLE app.grandchild () INHERITS (app.child);
CREATE UNLOGGED TABLE app.unguarded (id int);
CREATE FUNCTION app.change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
SELECT fencing.protect('app.account', 'fence_token');
SELECT fencing.protect('app.task', 'fence_token', 'job-{job_id}', source => 'transaction', mode => 'observe');
SELECT fencing.protect('app.shard', 'seen', 'shard-{id}', issuer => 'external', missing => 'allow');
SELECT fencing.protect('app."Odd Part"', 'fence_token', 'it''s-{id}');
SET client_min_messages = error;
SELECT count(fencing.protect(c::regclass, 'fence_token')) FROM unnest('{app.parent,app.child,app.grandchild}'::text[]) AS c;
RESET client_min_messages;
CREATE TRIGGER before BEFORE UPDATE ON app.account FOR EACH ROW EXECUTE FUNCTION app.change();
CREATE TRIGGER zzz_after AFTER UPDATE ON app.account FOR EACH ROW EXECUTE FUNCTION app.change();
CREATE TRIGGER zzz_statement BEFORE UPDATE ON app.account EXECUTE FUNCTION app.change();
CREATE TRIGGER zzz_delete BEFORE DELETE ON app.account FOR EACH ROW EXECUTE FUNCTION app.change();
CREATE TRIGGER zzz_off BEFORE UPDATE ON app.account FOR EACH ROW EXECUTE FUNCTION app.change();
ALTER TABLE app.account DISABLE TRIGGER zzz_off;
ALTER TABLE app.account ENABLE ALWAYS TRIGGER zz_fencing_guard;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.verify TO regress_fencing_stranger;
REVOKE EXECUTE ON FUNCTION fencing.verify FROM regress_fencing_stranger;
SELECT count(*) FROM fencing.acquire('job-1');
SELECT fencing.advance('shard-1', 7);
SELECT * FROM fencing.verify();

-- One after the other: what is planted is found, what is said cures it.
\set problems 'SELECT count(*) AS problems FROM fencing.verify();'
\set QUIET on
\pset format unaligned

\echo a guard is disabled, or left to replicas
ALTER TABLE app.account DISABLE TRIGGER zz_fencing_guard;
ALTER TABLE app.task DISABLE TRIGGER zz_fencing_guard_truncate;
ALTER TABLE app.shard ENABLE REPLICA TRIGGER zz_fencing_guard;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo the clone of a partition is disabled
ALTER TABLE app.part_eu_1 DISABLE TRIGGER zz_fencing_guard;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo a partition has come after protect, and has no TRUNCATE guard
CREATE TABLE app.part_us PARTITION OF app."Odd Part" FOR VALUES IN ('us');
CREATE TABLE app.part_eu_2 PARTITION OF app.part_eu FOR VALUES FROM (100) TO (200);
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo a table has only one of the two
DROP TRIGGER zz_fencing_guard_truncate ON app.shard;
DROP TRIGGER zz_fencing_guard ON app.task;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems
SELECT relation, source, issuer, missing, mode FROM fencing.guards WHERE relation IN ('app.shard'::regclass, 'app.task'::regclass) ORDER BY 1;

\echo a partition has been detached, and its clone with it
ALTER TABLE app."Odd Part" DETACH PARTITION app.part_us;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo ALWAYS has become ORIGIN on a partition
ALTER TABLE app."Odd Part" ENABLE ALWAYS TRIGGER zz_fencing_guard;
ALTER TABLE app.part_eu ENABLE ALWAYS TRIGGER zz_fencing_guard;
ALTER TABLE app.part_eu_1 ENABLE ALWAYS TRIGGER zz_fencing_guard;
ALTER TABLE app.part_eu_2 ENABLE ALWAYS TRIGGER zz_fencing_guard;
:problems
ALTER TABLE app.part_eu_1 ENABLE TRIGGER zz_fencing_guard;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo a trigger fires after the guard; one on the parent is said once
CREATE TRIGGER zzz_late BEFORE INSERT ON app.account FOR EACH ROW EXECUTE FUNCTION app.change();
CREATE TRIGGER "zzz Late" BEFORE UPDATE ON app."Odd Part" FOR EACH ROW EXECUTE FUNCTION app.change();
CREATE TRIGGER zzz_own BEFORE UPDATE ON app.part_eu_2 FOR EACH ROW EXECUTE FUNCTION app.change();
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo an inheritance child has no guard, at any depth
SELECT fencing.unprotect('app.grandchild');
CREATE TABLE app.child_2 () INHERITS (app.parent);
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo a guarded table is unlogged
ALTER TABLE app.account SET UNLOGGED;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo a guard names a column that is gone
ALTER TABLE app.account RENAME fence_token TO token;
ALTER TABLE app.task DROP COLUMN job_id;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo a guard that was written by hand has a bad argument, or does not fire for all
SELECT fencing.unprotect('app.shard');
CREATE TRIGGER mine BEFORE INSERT OR UPDATE OR DELETE ON app.shard FOR EACH ROW EXECUTE FUNCTION fencing.guard('seen', 'mode=later');
CREATE TRIGGER mine_truncate BEFORE TRUNCATE ON app.shard EXECUTE FUNCTION fencing.guard_truncate('seen');
CREATE TRIGGER hole BEFORE INSERT ON app.part_us FOR EACH ROW EXECUTE FUNCTION fencing.guard('fence_token');
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
SELECT object, problem FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo the same beside a guard that is sound: that one stays as it is
CREATE TRIGGER hole BEFORE INSERT ON app.task FOR EACH ROW EXECUTE FUNCTION fencing.guard('fence_token');
CREATE TRIGGER broken BEFORE INSERT ON app.task FOR EACH ROW EXECUTE FUNCTION fencing.guard();
CREATE TRIGGER whole BEFORE INSERT OR UPDATE OR DELETE ON app.task FOR EACH ROW EXECUTE FUNCTION fencing.guard('fence_token');
DROP TRIGGER zz_fencing_guard_truncate ON app.task;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems
SELECT guard, token_column, resource, source, mode FROM fencing.guards WHERE relation = 'app.task'::regclass ORDER BY 1;
DROP TRIGGER whole ON app.task;

\echo PUBLIC has more than the extension grants; as the owner of the database, and as a superuser
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.prune TO PUBLIC;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems
RESET SESSION AUTHORIZATION;
GRANT EXECUTE ON FUNCTION fencing.forget TO PUBLIC;
GRANT INSERT, SELECT ON fencing.fence TO PUBLIC;
GRANT CREATE ON SCHEMA fencing TO PUBLIC;
SELECT regexp_replace(cure, 'SET ROLE (?!pg_database_owner)\S+', 'SET ROLE installer') FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems
GRANT EXECUTE ON FUNCTION fencing.acquire TO PUBLIC GRANTED BY CURRENT_USER;
SELECT cure FROM fencing.verify() \gexec
:problems

\echo the sequence, and the tables of the extension
ALTER SEQUENCE fencing.token_seq CACHE 20 CYCLE;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems
ALTER SEQUENCE fencing.token_seq AS int MINVALUE -10 INCREMENT BY -1;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems
ALTER TABLE fencing.fence SET UNLOGGED;
ALTER SEQUENCE fencing.token_seq SET UNLOGGED;
SELECT * FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems

\echo a prepared transaction holds a seal; one that has not bound does not
SELECT token FROM fencing.acquire('job-2') \gset
BEGIN;
SELECT fencing.bind('job-2', :token) = :token AS bound;
PREPARE TRANSACTION 'regress fencing''s';
BEGIN;
CREATE TABLE app.other (id int);
PREPARE TRANSACTION 'regress other';
SELECT severity, object, regexp_replace(problem, 'since [^:]*.*: ', 'since ...: ') AS problem, cure FROM fencing.verify();
SELECT cure FROM fencing.verify() \gexec
:problems
ROLLBACK PREPARED 'regress other';

-- Who may ask, and that nothing which they plant is called.
SET SESSION AUTHORIZATION regress_fencing_monitor;
CREATE TEMPORARY TABLE pg_class (oid oid, relkind "char");
CREATE TEMPORARY VIEW pg_trigger AS SELECT 1 AS nothing;
SET search_path = pg_temp, pg_catalog;
SELECT count(*) AS problems FROM fencing.verify();
RESET SESSION AUTHORIZATION;
RESET search_path;
SET SESSION AUTHORIZATION regress_fencing_stranger;
\set VERBOSITY sqlstate
SELECT count(*) AS problems FROM fencing.verify();
RESET SESSION AUTHORIZATION;

\c :home
DROP DATABASE regress_fencing_verify;
DROP ROLE regress_fencing_owner, regress_fencing_monitor, regress_fencing_stranger;
