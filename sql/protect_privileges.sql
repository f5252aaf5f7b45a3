-- A table's owner needs EXECUTE on the trigger functions as well, and is told so.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;
CREATE ROLE regress_table_owner;
GRANT EXECUTE ON FUNCTION fencing.protect TO regress_table_owner;
CREATE TABLE owned_job (id int, fence_token bigint);
ALTER TABLE owned_job OWNER TO regress_table_owner;
SET ROLE regress_table_owner;
SELECT fencing.protect('owned_job', 'fence_token');
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION fencing.guard TO regress_table_owner;
SET ROLE regress_table_owner;
SELECT fencing.protect('owned_job', 'fence_token');
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
-- Nothing was made halfway.
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'owned_job'::regclass;
GRANT EXECUTE ON FUNCTION fencing.guard_truncate TO regress_table_owner;
SET ROLE regress_table_owner;
SELECT fencing.protect('owned_job', 'fence_token');
RESET ROLE;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'owned_job'::regclass ORDER BY tgname;
DROP TABLE owned_job;
REVOKE ALL ON FUNCTION fencing.protect, fencing.guard, fencing.guard_truncate FROM regress_table_owner;
DROP ROLE regress_table_owner;
