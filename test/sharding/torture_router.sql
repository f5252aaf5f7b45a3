-- torture_router.sql: beside docs/sharding/router.sql, what the workers of torture.pl call.
CREATE FUNCTION state_of(resource text) RETURNS TABLE (seq bigint, snapshot text, life text) LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;
CREATE FUNCTION work(resource text, token bigint, op text, worker int, seq bigint, rows int, nap float8)
	RETURNS void LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;
