-- What has its signature already and is not built yet says so, and does nothing else.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE SCHEMA test_not_yet;
SET search_path = test_not_yet;
CREATE TABLE task (job_id int PRIMARY KEY, fence_token bigint);

-- bind and bound.
SELECT fencing.bind('not yet/a', 34);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.bound();
\echo :LAST_ERROR_SQLSTATE

-- A resource template, asked of protect and written into a trigger by hand.
SELECT fencing.protect('task', 'fence_token', resource => 'job-{job_id}');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.protect('task', resource => 'job-{job_id}');
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.protect('task', 'fence_token', resource => 'job-{job_id}', issuer => 'external');
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) AS triggers FROM pg_catalog.pg_trigger WHERE tgrelid = 'task'::regclass;
CREATE TRIGGER zz_fencing_guard BEFORE INSERT OR UPDATE OR DELETE ON task
    FOR EACH ROW EXECUTE FUNCTION fencing.guard('fence_token', 'resource=job-{job_id}');
INSERT INTO task VALUES (1, 34);
\echo :LAST_ERROR_SQLSTATE
CREATE TRIGGER zz_fencing_guard_truncate BEFORE TRUNCATE ON task
    FOR EACH STATEMENT EXECUTE FUNCTION fencing.guard_truncate('fence_token', 'resource=job-{job_id}');
TRUNCATE task;
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM task;

-- An issuer says something only about a resource.
SELECT fencing.protect('task', 'fence_token', issuer => 'external');
\echo :LAST_ERROR_SQLSTATE

SET client_min_messages = warning;
DROP SCHEMA test_not_yet CASCADE;
