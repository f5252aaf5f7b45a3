\echo Use "CREATE EXTENSION fencing" to load this file. \quit

-- A plain CREATE: the install fails if somebody has planted a schema of this name, so that nothing
-- in it can ever be somebody else's.
CREATE SCHEMA fencing;
COMMENT ON SCHEMA fencing IS
'Fencing tokens, leases, and triggers that refuse stale writes';
