-- owner.sql: the owner of a database, who is no superuser, installs the extension; a worker that has slept past its
-- lease is refused.
\set QUIET on
\set VERBOSITY sqlstate
SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user;
CREATE EXTENSION fencing;
SELECT extname, extowner::regrole FROM pg_extension WHERE extname = 'fencing';
CREATE TABLE job (id int PRIMARY KEY, result text, fence_token bigint);
INSERT INTO job VALUES (1);
SELECT fencing.protect('job', 'fence_token', resource => 'job-{id}');
SELECT token, holder FROM fencing.acquire('job-1', holder => 'worker 1');
SELECT token, holder FROM fencing.acquire('job-1', holder => 'worker 2', steal => 'always');
UPDATE job SET result = 'of worker 2', fence_token = 2 WHERE id = 1;
UPDATE job SET result = 'late', fence_token = 1 WHERE id = 1;
SELECT * FROM job;
SELECT fencing.release('job-1', 2);
