-- Bad input about resources: to protect, which says so at once, to triggers made by hand, which say so at the
-- first write, and in rows that make no resource name.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_resource_guard_bad_input;
SET search_path = test_resource_guard_bad_input;
\set SHOW_CONTEXT never
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE TYPE couple AS (a int, b int);
CREATE DOMAIN padded AS char(8);
CREATE DOMAIN precise AS numeric(10, 2);
CREATE DOMAIN deep AS precise;
CREATE TABLE task (
    id int,
    token bigint,
    whole int,
    small smallint,
    word text,
    gone text,
    generated int GENERATED ALWAYS AS (id * 2) STORED,
    amount numeric,
    fraction double precision,
    ratio real,
    moment timestamptz,
    day date,
    span interval,
    raw bytea,
    many int[],
    pair couple,
    fixed char(8),
    letter "char",
    ident name,
    object oid,
    class regclass,
    document json,
    binary_document jsonb,
    address inet,
    bits bit(8),
    cash money,
    padded padded,
    deep deep,
    moods mood[],
    range int4range
);
ALTER TABLE task DROP COLUMN gone;

-- Braces that do not match, and none between which a name stands.
SELECT fencing.protect('task', 'token', 'job-{id');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.protect('task', 'token', 'job-id}');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.protect('task', 'token', 'job-{}');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.protect('task', 'token', '{');
SELECT fencing.protect('task', 'token', '}');
SELECT fencing.protect('task', 'token', '{id}}');
SELECT fencing.protect('task', 'token', '{{id}');
SELECT fencing.protect('task', 'token', '{id{word}}');
SELECT fencing.protect('task', 'token', '}{id}');
SELECT fencing.protect('task', 'token', 'a}b{id}');
-- (These do match.)
SELECT fencing.protect('task', 'token', '{{{id}');
SELECT fencing.protect('task', 'token', '{id}}}');
SELECT fencing.unprotect('task');
-- No template at all, and one whose literal text is too long already, or just fits.
SELECT fencing.protect('task', 'token', '');
SELECT fencing.protect('task', 'token', repeat('x', 513));
SELECT fencing.protect('task', 'token', repeat('x', 512) || '{id}y');
SELECT fencing.protect('task', 'token', repeat('x', 512));
SELECT fencing.unprotect('task');
-- More parts than a guard keeps.
\set VERBOSITY default
SELECT fencing.protect('task', 'token', repeat('{id}', 33));
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.protect('task', 'token', repeat('{id}', 32));
SELECT fencing.unprotect('task');

-- A column that is not there, or has no value yet.
\set VERBOSITY default
SELECT fencing.protect('task', 'token', 'job-{job_id}');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.protect('task', 'token', 'job-{generated}');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
-- Names are taken as they are: no folding, no quotes, no spaces around, no expression.
SELECT fencing.protect('task', 'token', 'job-{ID}');
SELECT fencing.protect('task', 'token', 'job-{"id"}');
SELECT fencing.protect('task', 'token', 'job-{ id}');
SELECT fencing.protect('task', 'token', 'job-{task.id}');
SELECT fencing.protect('task', 'token', 'job-{id + 1}');
SELECT fencing.protect('task', 'token', 'job-{gone}');
SELECT fencing.protect('task', 'token', 'job-{........pg.dropped.6........}');
SELECT fencing.protect('task', 'token', 'job-{ctid}');
SELECT fencing.protect('task', 'token', 'job-{tableoid}');
SELECT fencing.protect('task', 'token', 'job-{' || repeat('x', 64) || '}');
SELECT fencing.protect('task', 'token', 'job-{task}');

-- A column of a type that prints differently under other settings, or that is not a plain value.
\set VERBOSITY default
SELECT fencing.protect('task', 'token', 'job-{moment}');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.protect('task', 'token', 'job-{deep}');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.protect('task', 'token', 'job-{amount}');
SELECT fencing.protect('task', 'token', 'job-{fraction}');
SELECT fencing.protect('task', 'token', 'job-{ratio}');
SELECT fencing.protect('task', 'token', 'job-{day}');
SELECT fencing.protect('task', 'token', 'job-{span}');
SELECT fencing.protect('task', 'token', 'job-{raw}');
SELECT fencing.protect('task', 'token', 'job-{many}');
SELECT fencing.protect('task', 'token', 'job-{pair}');
SELECT fencing.protect('task', 'token', 'job-{fixed}');
SELECT fencing.protect('task', 'token', 'job-{letter}');
SELECT fencing.protect('task', 'token', 'job-{ident}');
SELECT fencing.protect('task', 'token', 'job-{object}');
SELECT fencing.protect('task', 'token', 'job-{class}');
SELECT fencing.protect('task', 'token', 'job-{document}');
SELECT fencing.protect('task', 'token', 'job-{binary_document}');
SELECT fencing.protect('task', 'token', 'job-{address}');
SELECT fencing.protect('task', 'token', 'job-{bits}');
SELECT fencing.protect('task', 'token', 'job-{cash}');
SELECT fencing.protect('task', 'token', 'job-{padded}');
SELECT fencing.protect('task', 'token', 'job-{moods}');
SELECT fencing.protect('task', 'token', 'job-{range}');

-- Tokens issued here outgrow the small types; tokens from elsewhere may be as small as their issuer keeps them.
\set VERBOSITY default
SELECT fencing.protect('task', 'whole', 'job-{id}');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.protect('task', 'small', 'job-{id}');
SELECT fencing.protect('task', 'small', 'job-{id}', issuer => 'fencing');
SELECT fencing.protect('task', 'small', 'job-{id}', issuer => 'external');
SELECT fencing.protect('task', 'whole', 'job-{id}', issuer => 'external');
SELECT fencing.unprotect('task');
SELECT fencing.protect('task', 'word', 'job-{id}');
SELECT fencing.protect('task', 'nope', 'job-{id}');
SELECT fencing.protect('task', 'generated', 'job-{id}');

-- The issuer says something only with a resource.
\set VERBOSITY default
SELECT fencing.protect('task', 'token', issuer => 'external');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.protect('task', 'token', 'job-{id}', issuer => 'zookeeper');
\echo :LAST_ERROR_SQLSTATE
-- Neither a column nor a resource.
SELECT fencing.protect('task');
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
SELECT fencing.protect('task', 'token', 'job-{id}', issuer => '');
SELECT fencing.protect('task', 'token', 'job-{id}', issuer => NULL);
-- Nothing was made.
SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = 'task'::regclass;

-- Of a partitioned table: nothing was made anywhere.
CREATE TABLE parent (id int, kind text, day date) PARTITION BY LIST (kind);
CREATE TABLE parent_a PARTITION OF parent FOR VALUES IN ('a');
SELECT fencing.protect('parent', resource => 'job-{day}');
SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid IN ('parent'::regclass, 'parent_a'::regclass);

-- By triggers made by hand.
CREATE TABLE hand (id int, token bigint, whole int, day date, twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE FUNCTION by_hand(VARIADIC arguments text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER zz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON hand
        FOR EACH ROW EXECUTE FUNCTION fencing.guard(%s)',
        (SELECT string_agg(quote_literal(a), ', ' ORDER BY n) FROM unnest(arguments) WITH ORDINALITY AS u (a, n)));
    EXECUTE format('CREATE OR REPLACE TRIGGER zz_fencing_guard_truncate BEFORE TRUNCATE ON hand
        FOR EACH STATEMENT EXECUTE FUNCTION fencing.guard_truncate(%s)',
        (SELECT string_agg(quote_literal(a), ', ' ORDER BY n) FROM unnest(arguments) WITH ORDINALITY AS u (a, n)));
END $$;
SELECT by_hand('token', 'resource=job-{id') \gset
INSERT INTO hand VALUES (1, 1);
TRUNCATE hand;
SELECT by_hand('resource=job-{}') \gset
INSERT INTO hand VALUES (1, 1);
TRUNCATE hand;
SELECT by_hand('resource=') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('resource') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('token', 'resource=a', 'resource=b') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('token', 'Resource=a') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('token', 'resource = a') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('token', 'resource=job-{job_id}') \gset
INSERT INTO hand VALUES (1, 1);
TRUNCATE hand;
SELECT by_hand('token', 'resource=job-{twice}') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('token', 'resource=job-{day}') \gset
INSERT INTO hand VALUES (1, 1);
TRUNCATE hand;
SELECT by_hand('whole', 'resource=job-{id}') \gset
INSERT INTO hand VALUES (1, 1);
TRUNCATE hand;
SELECT by_hand('token', 'issuer=external') \gset
INSERT INTO hand VALUES (1, 1);
TRUNCATE hand;
SELECT by_hand('token', 'issuer=fencing') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('token', 'resource=job-{id}', 'issuer=zookeeper') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('issuer=external') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand(repeat('x', 513), 'resource=a') \gset
INSERT INTO hand VALUES (1, 1);
SELECT by_hand('resource=' || repeat('x', 513)) \gset
INSERT INTO hand VALUES (1, 1);
-- In order, whatever the order; the first "=" splits.
SELECT by_hand('issuer=external', 'resource=resource_guard_bad_input/={id}', 'token_column=token') \gset
INSERT INTO hand VALUES (1, 33);
SELECT resource, token FROM fencing.lookup('resource_guard_bad_input/=1');

-- Rows that make no resource name: a part is NULL, all is empty, all is too long.
CREATE TABLE row_of (id int, name text);
SELECT fencing.protect('row_of', resource => '{name}', issuer => 'external');
\set VERBOSITY default
BEGIN;
SET LOCAL fencing.token = 33;
SAVEPOINT here;
INSERT INTO row_of VALUES (1, NULL);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK TO here;
INSERT INTO row_of VALUES (1, '');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK TO here;
INSERT INTO row_of VALUES (1, repeat('x', 513));
\echo :LAST_ERROR_SQLSTATE
ROLLBACK TO here;
\set VERBOSITY sqlstate
INSERT INTO row_of VALUES (1, repeat('x', 100000));
ROLLBACK TO here;
INSERT INTO row_of VALUES (1, repeat('z', 512)), (2, 'resource_guard_bad_input/y');
UPDATE row_of SET name = NULL WHERE id = 2;
ROLLBACK TO here;
INSERT INTO row_of VALUES (1, 'resource_guard_bad_input/x');
UPDATE row_of SET name = NULL;
ROLLBACK TO here;
INSERT INTO row_of VALUES (1, 'resource_guard_bad_input/x');
UPDATE row_of SET name = '';
ROLLBACK TO here;
COPY row_of FROM stdin;
1	\N
\.
ROLLBACK TO here;
COMMIT;
-- With a token or without one, allowed or not: such a row belongs to nothing.
INSERT INTO row_of VALUES (1, NULL);
SELECT fencing.protect('row_of', resource => '{name}', issuer => 'external', missing => 'allow');
INSERT INTO row_of VALUES (1, NULL);
SELECT fencing.unprotect('row_of');
INSERT INTO row_of VALUES (1, NULL);
SELECT fencing.protect('row_of', resource => '{name}', issuer => 'external');
BEGIN;
SET LOCAL fencing.token = 33;
SAVEPOINT here;
UPDATE row_of SET name = 'resource_guard_bad_input/x';
ROLLBACK TO here;
DELETE FROM row_of;
ROLLBACK;
-- A domain's NULL, and an enum's.
CREATE DOMAIN word AS text;
CREATE TABLE typed (word word, mood mood, flag boolean, small smallint);
SELECT fencing.protect('typed', resource => 'resource_guard_bad_input/{word}{mood}{flag}{small}', issuer => 'external');
BEGIN;
SET LOCAL fencing.token = 33;
SAVEPOINT here;
INSERT INTO typed VALUES (NULL, 'glad', true, 1);
ROLLBACK TO here;
INSERT INTO typed VALUES ('a', NULL, true, 1);
ROLLBACK TO here;
INSERT INTO typed VALUES ('a', 'glad', NULL, 1);
ROLLBACK TO here;
INSERT INTO typed VALUES ('a', 'glad', true, NULL);
ROLLBACK TO here;
INSERT INTO typed VALUES ('a', 'glad', true, 1);
ROLLBACK;

-- One resource, one issuer.
SELECT fencing.advance('resource_guard_bad_input/elsewhere', 33);
SELECT token AS t FROM fencing.acquire('resource_guard_bad_input/here') \gset
CREATE TABLE here (name text, token bigint);
SELECT fencing.protect('here', 'token', 'resource_guard_bad_input/{name}');
CREATE TABLE elsewhere (name text, token bigint);
SELECT fencing.protect('elsewhere', 'token', 'resource_guard_bad_input/{name}', issuer => 'external');
\set VERBOSITY default
INSERT INTO here VALUES ('elsewhere', 33);
\echo :LAST_ERROR_SQLSTATE
INSERT INTO elsewhere VALUES ('here', :t);
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY sqlstate
-- Whatever the token and wherever it comes from.
INSERT INTO here VALUES ('elsewhere', 1);
INSERT INTO elsewhere VALUES ('here', 1);
BEGIN;
SELECT fencing.bind('resource_guard_bad_input/here', :t) \gset
INSERT INTO elsewhere VALUES ('here');
ROLLBACK;
BEGIN;
SELECT fencing.bind('resource_guard_bad_input/elsewhere', 33) \gset
INSERT INTO here VALUES ('elsewhere');
ROLLBACK;
BEGIN;
SET LOCAL fencing.token = :t;
DELETE FROM elsewhere;
DELETE FROM here;
UPDATE here SET name = 'elsewhere';
COMMIT;
-- Both in one transaction, over a resource that nobody knew before.
BEGIN;
INSERT INTO elsewhere VALUES ('news', 33);
INSERT INTO here VALUES ('news', 33);
ROLLBACK;
BEGIN;
INSERT INTO elsewhere VALUES ('news', 33);
SELECT token FROM fencing.acquire('resource_guard_bad_input/news') \gset
COMMIT;
SELECT * FROM fencing.lookup('resource_guard_bad_input/news');

SELECT fencing.forget(name) FROM unnest(ARRAY['resource_guard_bad_input/=1', 'resource_guard_bad_input/elsewhere']) AS name;
SET client_min_messages = warning;
DROP SCHEMA test_resource_guard_bad_input CASCADE;
