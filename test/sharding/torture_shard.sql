-- torture_shard.sql: beside test/torture/schema.sql, what the workers of torture.pl call on a shard: what it has for a
-- resource, and a transaction with a bound token: rows, and the number of the transaction that comes next.
CREATE FUNCTION state_of(resource text) RETURNS TABLE (seq bigint, snapshot text, life text) LANGUAGE sql VOLATILE AS $$
	SELECT s.seq, pg_current_snapshot()::text, life() FROM state s WHERE s.resource = state_of.resource
$$;
CREATE FUNCTION work(resource text, token bigint, op text, worker int, seq bigint, rows int, nap float8)
	RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fencing.bind(work.resource, work.token);
	INSERT INTO log (op, part, resource, token, seq, worker)
	SELECT work.op, n, work.resource, work.token,
		CASE n WHEN 0 THEN work.seq END, work.worker FROM generate_series(0, rows - 1) n;
	UPDATE state s SET seq = work.seq, op = work.op WHERE s.resource = work.resource;
	-- The sleeper that is to be found out at COMMIT.
	PERFORM pg_sleep(nap);
END $$;
