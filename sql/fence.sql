-- The fence of a resource whose tokens come from elsewhere.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fencing;
RESET client_min_messages;

-- advance raises the fence and says where it stands.
SELECT fencing.advance('fence/a', 34);
SELECT * FROM fencing.lookup('fence/a');
-- Equal is fine: the same holder again.
SELECT fencing.advance('fence/a', 34);
-- Higher is the next holder.
SELECT fencing.advance('fence/a', 40);

-- Lower is stale, and the fence stays (I3).
SELECT fencing.advance('fence/a', 39);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.advance('fence/a', 1);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.lookup('fence/a');

-- ROLLBACK takes back what was never committed, and no more.
BEGIN;
SELECT fencing.advance('fence/a', 50);
SELECT token FROM fencing.lookup('fence/a');
ROLLBACK;
SELECT token FROM fencing.lookup('fence/a');
SELECT fencing.advance('fence/a', 41);
BEGIN;
SELECT fencing.advance('fence/a', 42);
SAVEPOINT s;
SELECT fencing.advance('fence/a', 60);
ROLLBACK TO s;
SELECT fencing.advance('fence/a', 43);
COMMIT;
SELECT token FROM fencing.lookup('fence/a');

-- Other people's tokens do not move our sequence.
SELECT fencing.next_token() AS before \gset
SELECT fencing.advance('fence/big', 4611686018427387904);
SELECT fencing.next_token() - :before AS step;

-- At every isolation level, also inside a block.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT fencing.advance('fence/a', 44);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT token FROM fencing.lookup('fence/a');
SELECT fencing.advance('fence/a', 45);
COMMIT;

-- A resource has one issuer: what is advanced from elsewhere is not granted here ...
SELECT * FROM fencing.acquire('fence/a');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM fencing.acquire('fence/a', steal => 'always');
\echo :LAST_ERROR_SQLSTATE
-- ... and what is granted here is not advanced, neither while the lease stands nor afterwards.
SELECT token AS t FROM fencing.acquire('fence/ours') \gset
SELECT fencing.advance('fence/ours', 9223372036854775807);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.advance('fence/ours', :t);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.release('fence/ours', :t);
SELECT fencing.advance('fence/ours', 9223372036854775807);
\echo :LAST_ERROR_SQLSTATE
SELECT token = :t AS unchanged FROM fencing.lookup('fence/ours');
-- There is no lease on the first kind: renew and release find none (I9).
SELECT fencing.renew('fence/a', 45) IS NULL AS lost, fencing.release('fence/a', 45) AS released;
SELECT * FROM fencing.lookup('fence/a');

-- The greatest token leaves no room for another: forget is the repair.
SELECT fencing.advance('fence/bogus', 9223372036854775807);
SELECT fencing.advance('fence/bogus', 9223372036854775806);
\echo :LAST_ERROR_SQLSTATE
SELECT fencing.advance('fence/bogus', 9223372036854775807);
SELECT fencing.forget('fence/bogus');
SELECT count(*) FROM fencing.lookup('fence/bogus');
SELECT fencing.advance('fence/bogus', 7);
-- forget says whether there was anything.
SELECT fencing.forget('fence/bogus');
SELECT fencing.forget('fence/bogus');
SELECT fencing.forget('fence/never');

-- A forgotten resource may have the other issuer next.
SELECT fencing.forget('fence/a');
SELECT token AS t FROM fencing.acquire('fence/a', '10 minutes') \gset
-- Forgetting a lease ends it; the next grant is greater all the same (I1).
SELECT fencing.forget('fence/a');
SELECT fencing.renew('fence/a', :t) IS NULL AS lost, fencing.release('fence/a', :t) AS released;
SELECT token > :t AS greater FROM fencing.acquire('fence/a');
-- ROLLBACK takes forget back, too.
BEGIN;
SELECT fencing.forget('fence/a');
SELECT count(*) FROM fencing.lookup('fence/a');
ROLLBACK;
SELECT count(*) FROM fencing.lookup('fence/a');

-- Our own sequence is moved past a fence that stands higher, however that came about (I2).
UPDATE fencing.fence SET token = token + 1000000 WHERE resource = 'fence/ours' RETURNING token AS raised \gset
SELECT token > :raised AS greater FROM fencing.acquire('fence/ours');
SELECT fencing.next_token() > :raised AS greater;

-- A read-only transaction raises and forgets nothing.
BEGIN READ ONLY;
SELECT fencing.advance('fence/a', 99);
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT fencing.forget('fence/a');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
