-- Who may do what; and that nothing that others plant, and no right that is missing, changes a verdict.
-- In databases of its own: one that a superuser has made, one whose owner is no superuser.
SELECT current_database() AS home \gset
CREATE ROLE regress_fencing_owner;
CREATE ROLE regress_fencing_worker;
CREATE ROLE regress_fencing_stranger;
CREATE DATABASE regress_fencing_privileges;
\c regress_fencing_privileges
\set SHOW_CONTEXT never
CREATE EXTENSION fencing;

-- The matrix, without what the extension's own owner has.
SELECT p.proname AS function, coalesce(r.rolname, 'PUBLIC') AS grantee, a.privilege_type, a.is_grantable
FROM pg_catalog.pg_proc AS p CROSS JOIN LATERAL pg_catalog.aclexplode(p.proacl) AS a
    LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
WHERE p.pronamespace = 'fencing'::pg_catalog.regnamespace AND a.grantee <> p.proowner
ORDER BY 1, 2, 3;
SELECT c.relname AS relation, coalesce(r.rolname, 'PUBLIC') AS grantee, a.privilege_type, a.is_grantable
FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS a
    LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
WHERE c.relnamespace = 'fencing'::pg_catalog.regnamespace AND a.grantee <> c.relowner
ORDER BY 1, 2, 3;
SELECT n.nspname AS schema, coalesce(r.rolname, 'PUBLIC') AS grantee, a.privilege_type, a.is_grantable
FROM pg_catalog.pg_namespace AS n CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) AS a
    LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
WHERE n.nspname = 'fencing' AND a.grantee <> n.nspowner
ORDER BY 1, 2, 3;

-- A role without grants may look, and take the guard off a table of its own; nothing else.
CREATE TABLE public.account (id int PRIMARY KEY, balance int, token bigint);
INSERT INTO public.account VALUES (1, 100, 34);
SELECT fencing.protect('public.account', 'token');
SELECT resource FROM fencing.acquire('privileges/a', '10 minutes', 'superuser');
SET SESSION AUTHORIZATION regress_fencing_stranger;
SELECT resource, holder FROM fencing.lookup('privileges/a');
SELECT fencing.next_token();
SELECT fencing.unprotect('public.account');
\set VERBOSITY sqlstate
SELECT fencing.fast_forward(1);
SELECT * FROM fencing.acquire('privileges/b');
SELECT fencing.renew('privileges/a', 1);
SELECT fencing.release('privileges/a', 1);
SELECT fencing.prune();
SELECT fencing.advance('privileges/b', 1);
SELECT fencing.forget('privileges/a');
SELECT fencing.bind('privileges/a', 1);
SELECT fencing.protect('public.account', 'token');
SELECT fencing.guard();
SELECT fencing.guard_truncate();
-- Nor has it a right on the tables, by any road.
SELECT * FROM fencing.fence;
UPDATE fencing.fence SET token = 1;
INSERT INTO fencing.fence VALUES ('privileges/b', 1, false);
DELETE FROM fencing.fence;
TRUNCATE fencing.fence;
BEGIN;
LOCK TABLE fencing.fence IN ACCESS SHARE MODE;
ROLLBACK;
SELECT pg_catalog.nextval('fencing.token_seq');
SELECT pg_catalog.setval('fencing.token_seq', 1);
SELECT last_value FROM fencing.token_seq;
CREATE TABLE fencing.planted (id int);
-- A trigger of ours on a table of one's own needs the right to use its function.
CREATE TEMPORARY TABLE own (id int, token bigint);
CREATE TRIGGER zz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON own FOR EACH ROW EXECUTE FUNCTION fencing.guard('token');
SELECT fencing.unprotect('own');
RESET SESSION AUTHORIZATION;

-- What a worker is granted, and no more, is enough for the whole round.
GRANT EXECUTE ON FUNCTION fencing.next_token, fencing.acquire, fencing.renew, fencing.release, fencing.advance TO regress_fencing_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON public.account TO regress_fencing_worker;
SET SESSION AUTHORIZATION regress_fencing_worker;
SELECT fencing.next_token() > 0 AS drawn;
SELECT token AS t FROM fencing.acquire('privileges/job', '10 minutes', 'w1') \gset
SELECT fencing.renew('privileges/job', :t) IS NOT NULL AS renewed;
SELECT resource, holder FROM fencing.lookup('privileges/job');
BEGIN;
SET LOCAL fencing.token = 35;
UPDATE public.account SET balance = 101 WHERE id = 1 RETURNING *;
COMMIT;
UPDATE public.account SET balance = 0, token = 34 WHERE id = 1;
UPDATE public.account SET balance = 0 WHERE id = 1;
SELECT fencing.release('privileges/job', :t);
SELECT token > :t AS greater FROM fencing.acquire('privileges/job', '10 minutes', 'w1');
SELECT fencing.advance('privileges/elsewhere', 34);
SELECT fencing.advance('privileges/elsewhere', 33);
-- The rest stays closed.
SELECT fencing.fast_forward(1);
SELECT fencing.prune();
SELECT fencing.forget('privileges/job');
SELECT * FROM fencing.fence;
SET fencing.enforcement = 'off';
SET fencing.durable_grants = off;
RESET SESSION AUTHORIZATION;

-- A role that may write a guarded table and has no right of ours is judged like any other.
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON public.account TO regress_fencing_stranger;
SET SESSION AUTHORIZATION regress_fencing_stranger;
UPDATE public.account SET balance = 0 WHERE id = 1;
UPDATE public.account SET balance = 0, token = 34 WHERE id = 1;
UPDATE public.account SET balance = 102, token = 35 WHERE id = 1 RETURNING *;
TRUNCATE public.account;
RESET SESSION AUTHORIZATION;
-- Even if PUBLIC has no way into the schema any more.
REVOKE USAGE ON SCHEMA fencing FROM PUBLIC;
SET SESSION AUTHORIZATION regress_fencing_stranger;
UPDATE public.account SET balance = 0 WHERE id = 1;
UPDATE public.account SET balance = 103, token = 35 WHERE id = 1 RETURNING *;
RESET SESSION AUTHORIZATION;
GRANT USAGE ON SCHEMA fencing TO PUBLIC;

-- What only a superuser may set cannot be slipped in before the library is loaded.
\c
\set SHOW_CONTEXT never
\set VERBOSITY default
SET SESSION AUTHORIZATION regress_fencing_stranger;
SET fencing.enforcement = 'off';
UPDATE public.account SET balance = 0 WHERE id = 1;
\set VERBOSITY sqlstate
SHOW fencing.enforcement;
RESET SESSION AUTHORIZATION;
UPDATE public.account SET balance = 0 WHERE id = 1;
\c
SET SESSION AUTHORIZATION regress_fencing_stranger;
BEGIN;
SET LOCAL fencing.enforcement = 'off';
SET LOCAL fencing.durable_grants = 'off';
UPDATE public.account SET balance = 0 WHERE id = 1;
ROLLBACK;
SHOW fencing.enforcement;
SHOW fencing.durable_grants;
RESET SESSION AUTHORIZATION;

-- A SECURITY DEFINER function lends its owner's right to acquire, and has no other token than its caller.
CREATE FUNCTION public.acquire_for(resource text) RETURNS text LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$ SELECT holder FROM fencing.acquire($1, '10 minutes', session_user) $$;
CREATE FUNCTION public.write_for(new_balance int) RETURNS SETOF public.account LANGUAGE sql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$ UPDATE public.account SET balance = new_balance WHERE id = 1 RETURNING * $$;
SET SESSION AUTHORIZATION regress_fencing_stranger;
SELECT public.acquire_for('privileges/definer');
SELECT public.acquire_for('privileges/definer') IS NULL AS refused;
SELECT * FROM public.write_for(0);
BEGIN;
SET LOCAL fencing.token = 34;
SELECT * FROM public.write_for(0);
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 35;
SELECT * FROM public.write_for(104);
COMMIT;
RESET SESSION AUTHORIZATION;

-- A cascade runs as the owner of the child, who has no right of ours: the check is made all the same.
CREATE SCHEMA cascade;
GRANT ALL ON SCHEMA cascade TO regress_fencing_stranger;
CREATE TABLE cascade.owner (id int PRIMARY KEY);
CREATE TABLE cascade.card (id int, owner int REFERENCES cascade.owner ON DELETE CASCADE, token bigint);
SELECT fencing.protect('cascade.card', 'token');
INSERT INTO cascade.owner VALUES (1);
INSERT INTO cascade.card VALUES (1, 1, 34);
ALTER TABLE cascade.owner OWNER TO regress_fencing_stranger;
ALTER TABLE cascade.card OWNER TO regress_fencing_stranger;
DELETE FROM cascade.owner;
SET SESSION AUTHORIZATION regress_fencing_stranger;
DELETE FROM cascade.owner;
BEGIN;
SET LOCAL fencing.token = 33;
DELETE FROM cascade.owner;
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = 34;
DELETE FROM cascade.owner;
COMMIT;
SELECT count(*) FROM cascade.card;
RESET SESSION AUTHORIZATION;

-- Row security on our table stops nobody and hides nothing: the functions do not read it through a policy.
ALTER TABLE fencing.fence ENABLE ROW LEVEL SECURITY;
ALTER TABLE fencing.fence FORCE ROW LEVEL SECURITY;
CREATE POLICY nothing ON fencing.fence USING (false);
GRANT SELECT ON fencing.fence TO regress_fencing_worker;
SET SESSION AUTHORIZATION regress_fencing_worker;
SELECT count(*) FROM fencing.fence;
SELECT resource, holder FROM fencing.lookup('privileges/job');
SELECT count(*) FROM fencing.acquire('privileges/job');
SELECT fencing.release('privileges/job', token) FROM fencing.lookup('privileges/job');
SELECT resource FROM fencing.acquire('privileges/job', '10 minutes');
SELECT fencing.renew('privileges/job', token) IS NOT NULL AS renewed FROM fencing.lookup('privileges/job');
SELECT fencing.advance('privileges/elsewhere', 33);
SELECT fencing.advance('privileges/elsewhere', 35);
-- Neither with row_security = off, where the server would raise an error of its own.
SET row_security = off;
SELECT resource FROM fencing.lookup('privileges/job');
SELECT fencing.release('privileges/job', token) FROM fencing.lookup('privileges/job');
RESET row_security;
RESET SESSION AUTHORIZATION;
REVOKE SELECT ON fencing.fence FROM regress_fencing_worker;
DROP POLICY nothing ON fencing.fence;
ALTER TABLE fencing.fence NO FORCE ROW LEVEL SECURITY;
ALTER TABLE fencing.fence DISABLE ROW LEVEL SECURITY;

-- An empty search_path.
SET search_path = '';
SELECT token AS t FROM fencing.acquire('privileges/path', '10 minutes', 'w1') \gset
SELECT count(*) FROM fencing.acquire('privileges/path');
SELECT fencing.renew('privileges/path', :t) IS NOT NULL AS renewed;
SELECT fencing.release('privileges/path', :t);
SELECT holder IS NULL AS released FROM fencing.lookup('privileges/path');
SELECT fencing.advance('privileges/elsewhere', 36);
SELECT fencing.forget('privileges/elsewhere');
SELECT fencing.prune('1 hour');
SELECT fencing.next_token() > :t AS greater;
SELECT fencing.protect('public.account', 'token', missing => 'allow');
SELECT fencing.protect('public.account', 'token');
UPDATE public.account SET balance = 0 WHERE id = 1;
UPDATE public.account SET balance = 0, token = 34 WHERE id = 1;
UPDATE public.account SET balance = 105, token = 35 WHERE id = 1 RETURNING *;
RESET search_path;

-- Planted: functions, operators, types and tables that are found before the real ones. Each says so if it is used.
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
CREATE FUNCTION hostile.compare(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.compare(bigint, bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.compare(timestamptz, timestamptz) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.compare(boolean, boolean) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.compare(oid, oid) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.compare(name, name) RETURNS boolean LANGUAGE sql AS $$ SELECT hostile.trap() $$;
CREATE FUNCTION hostile.plus(timestamptz, interval) RETURNS timestamptz LANGUAGE sql AS $$ SELECT CASE WHEN hostile.trap() THEN $1 END $$;
CREATE FUNCTION hostile.minus(timestamptz, interval) RETURNS timestamptz LANGUAGE sql AS $$ SELECT CASE WHEN hostile.trap() THEN $1 END $$;
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT CASE WHEN hostile.trap() THEN pg_catalog.now() END $$;
CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT CASE WHEN hostile.trap() THEN pg_catalog.now() END $$;
CREATE FUNCTION hostile.nextval(regclass) RETURNS bigint LANGUAGE sql AS $$ SELECT CASE WHEN hostile.trap() THEN 1::bigint END $$;
CREATE FUNCTION hostile.setval(regclass, bigint) RETURNS bigint LANGUAGE sql AS $$ SELECT CASE WHEN hostile.trap() THEN 1::bigint END $$;
CREATE FUNCTION hostile.guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(new, old); END $$;
CREATE FUNCTION hostile.guard_truncate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.>= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.> (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.<= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.>= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.= (LEFTARG = boolean, RIGHTARG = boolean, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.= (LEFTARG = name, RIGHTARG = name, FUNCTION = hostile.compare);
CREATE OPERATOR hostile.+ (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = hostile.plus);
CREATE OPERATOR hostile.- (LEFTARG = timestamptz, RIGHTARG = interval, FUNCTION = hostile.minus);
CREATE TABLE hostile.fence (resource text PRIMARY KEY, token bigint, external boolean, holder text, ttl interval,
    acquired_at timestamptz, expires_at timestamptz, released_at timestamptz);
CREATE SEQUENCE hostile.token_seq;
CREATE TYPE hostile.lease AS (resource int);
CREATE TEMPORARY TABLE fence (resource text PRIMARY KEY, token bigint, external boolean, holder text, ttl interval,
    acquired_at timestamptz, expires_at timestamptz, released_at timestamptz);
CREATE TEMPORARY SEQUENCE token_seq;
CREATE TEMPORARY TABLE pg_class (LIKE pg_catalog.pg_class);
CREATE TEMPORARY TABLE pg_trigger (LIKE pg_catalog.pg_trigger);
GRANT USAGE ON SCHEMA hostile TO PUBLIC;
SET search_path = pg_temp, hostile, pg_catalog, fencing, public;
-- The trap works ...
SELECT 1::bigint = 1::bigint;
-- ... and nothing of ours steps into it.
SELECT token AS t FROM fencing.acquire('privileges/hostile', '10 minutes', 'w1') \gset
SELECT holder FROM fencing.acquire('privileges/hostile', '10 minutes', 'w1', steal => 'same_holder');
SELECT token AS t FROM fencing.acquire('privileges/hostile', '1 millisecond', 'w2', steal => 'always') \gset
SELECT holder FROM fencing.acquire('privileges/hostile', '10 minutes', 'w3', wait => '10 seconds');
SELECT fencing.renew('privileges/hostile', :t) IS NULL AS lost, fencing.release('privileges/hostile', :t) AS released;
SELECT fencing.release('privileges/hostile', token) FROM fencing.lookup('privileges/hostile');
SELECT fencing.prune('0') > 0 AS pruned;
SELECT fencing.advance('privileges/hostile', 34);
SELECT fencing.advance('privileges/hostile', 33);
SELECT fencing.forget('privileges/hostile');
SELECT fencing.next_token() OPERATOR(pg_catalog.>) :t AS greater;
SELECT fencing.fast_forward(1) IS NOT NULL AS moved;
UPDATE public.account SET balance = 0;
UPDATE public.account SET balance = 0, token = 34;
UPDATE public.account SET balance = 106, token = 36 RETURNING *;
SELECT fencing.protect('public.account', 'token', missing => 'allow');
SELECT fencing.protect('public.account', 'token');
SELECT fencing.unprotect('public.account');
SELECT fencing.protect('public.account', 'token');
UPDATE public.account SET balance = 0;
RESET search_path;
SELECT t.tgname, t.tgfoid::pg_catalog.regproc FROM pg_catalog.pg_trigger AS t
WHERE t.tgrelid = 'public.account'::pg_catalog.regclass ORDER BY t.tgname;
SELECT count(*) FROM hostile.fence;
SELECT count(*) FROM pg_temp.fence;
-- A session that begins with this path compiles everything under it.
ALTER DATABASE regress_fencing_privileges SET search_path = hostile, pg_catalog, fencing, public;
\c
\set VERBOSITY sqlstate
UPDATE public.account SET balance = 0;
SELECT holder FROM fencing.acquire('privileges/hostile', '10 minutes', 'w1');
SELECT count(*) FROM fencing.acquire('privileges/hostile', '10 minutes', 'w1');
SELECT fencing.release('privileges/hostile', token) FROM fencing.lookup('privileges/hostile');
-- And the extension can be made anew there.
SET client_min_messages = warning;
DROP EXTENSION fencing CASCADE;
CREATE EXTENSION fencing;
RESET client_min_messages;
SELECT holder FROM fencing.acquire('privileges/hostile', '10 minutes', 'w1');
RESET search_path;
SELECT pg_catalog.count(*) FROM hostile.fence;
\c :home
DROP DATABASE regress_fencing_privileges;

-- A database whose owner is no superuser: the owner installs the extension ...
\set VERBOSITY default
CREATE DATABASE regress_fencing_owned OWNER regress_fencing_owner;
\c regress_fencing_owned
\set SHOW_CONTEXT never
SET SESSION AUTHORIZATION regress_fencing_stranger;
CREATE EXTENSION fencing;
SET SESSION AUTHORIZATION regress_fencing_owner;
CREATE EXTENSION fencing;
-- ... may do everything ...
SELECT fencing.next_token();
SELECT fencing.fast_forward(100);
SELECT token FROM fencing.acquire('owned/a', '10 minutes', 'owner');
SELECT fencing.release('owned/a', 101);
SELECT fencing.prune('0');
SELECT fencing.advance('owned/a', 34);
SELECT fencing.forget('owned/a');
-- ... may read what a dump has to read, and write nothing past the functions ...
SELECT count(*) FROM fencing.fence;
SELECT last_value FROM fencing.token_seq;
\set VERBOSITY sqlstate
INSERT INTO fencing.fence VALUES ('owned/a', 1, false);
UPDATE fencing.fence SET token = 1;
DELETE FROM fencing.fence;
TRUNCATE fencing.fence;
SELECT pg_catalog.nextval('fencing.token_seq');
SELECT pg_catalog.setval('fencing.token_seq', 1);
ALTER TABLE fencing.fence DISABLE TRIGGER ALL;
SET fencing.enforcement = 'off';
-- ... and hands on what is needed: the README's grants for a worker, and for the role that owns tables.
GRANT EXECUTE ON FUNCTION fencing.next_token, fencing.acquire, fencing.renew, fencing.release, fencing.advance, fencing.bind
    TO regress_fencing_worker;
GRANT EXECUTE ON FUNCTION fencing.guard, fencing.guard_truncate, fencing.protect TO regress_fencing_worker;
CREATE SCHEMA app;
GRANT ALL ON SCHEMA app TO regress_fencing_worker;

-- The quick start, as that role.
\set VERBOSITY default
SET SESSION AUTHORIZATION regress_fencing_worker;
CREATE TABLE app.account (id int PRIMARY KEY, balance int NOT NULL, fence_token bigint);
INSERT INTO app.account VALUES (1, 100);
SELECT fencing.protect('app.account', 'fence_token');
SELECT resource, token AS t1, holder FROM fencing.acquire('wallet:1', '1 millisecond', 'worker 1') \gset
BEGIN;
SELECT set_config('fencing.token', :'t1', true) = :'t1' AS carries;
UPDATE app.account SET balance = balance - 10 WHERE id = 1 RETURNING balance, fence_token = :t1 AS stamped;
COMMIT;
SELECT pg_sleep(0.02);
SELECT token AS t2 FROM fencing.acquire('wallet:1', '10 minutes', 'worker 2') \gset
UPDATE app.account SET balance = balance - 20, fence_token = :t2 WHERE id = 1 RETURNING balance, fence_token = :t2 AS stamped;
\set VERBOSITY sqlstate
UPDATE app.account SET balance = 0, fence_token = :t1 WHERE id = 1;
UPDATE app.account SET balance = 0 WHERE id = 1;
SELECT balance FROM app.account;
SELECT fencing.renew('wallet:1', :t1) IS NULL AS lost;
SELECT fencing.release('wallet:1', :t2);
SELECT fencing.unprotect('app.account');
-- It may not hand on what it was granted, nor reach what is the installer's.
GRANT EXECUTE ON FUNCTION fencing.acquire TO regress_fencing_stranger;
SELECT fencing.prune();
SELECT fencing.forget('wallet:1');
SELECT fencing.fast_forward(1000);
SET SESSION AUTHORIZATION regress_fencing_stranger;
SELECT * FROM fencing.acquire('wallet:1');
RESET SESSION AUTHORIZATION;

-- The next owner of the database has the installer's rights, and the last one has lost them.
ALTER DATABASE regress_fencing_owned OWNER TO regress_fencing_stranger;
SET SESSION AUTHORIZATION regress_fencing_owner;
SELECT fencing.prune();
SET SESSION AUTHORIZATION regress_fencing_stranger;
SELECT fencing.prune('1 day');
RESET SESSION AUTHORIZATION;

\c :home
DROP DATABASE regress_fencing_owned;
DROP ROLE regress_fencing_owner, regress_fencing_worker, regress_fencing_stranger;
