-- router.sql: what the router has: PL/Proxy functions with the names and arguments of those on the shards. It has no
-- data, and no lease. Variables of psql: shard0, shard1 (how to connect, as keyword = value). Its clients connect as `worker`,
-- and the router to the shards as whoever has connected to it.
CREATE EXTENSION plproxy;
CREATE SERVER shards FOREIGN DATA WRAPPER plproxy OPTIONS (p0 :'shard0', p1 :'shard1');
CREATE USER MAPPING FOR PUBLIC SERVER shards;

CREATE SCHEMA fencing;
CREATE TYPE fencing.lease AS (resource text, token bigint, holder text, ttl interval, acquired_at timestamptz,
	expires_at timestamptz);
CREATE FUNCTION fencing.acquire(resource text, ttl interval DEFAULT '30 seconds', holder text DEFAULT NULL,
	wait interval DEFAULT '0', steal text DEFAULT 'never') RETURNS SETOF fencing.lease LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;
CREATE FUNCTION fencing.renew(resource text, token bigint, ttl interval DEFAULT NULL)
	RETURNS timestamptz LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;
CREATE FUNCTION fencing.release(resource text, token bigint) RETURNS boolean LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;
CREATE FUNCTION fencing.advance(resource text, token bigint) RETURNS bigint LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;
CREATE FUNCTION fencing.lookup(resource text) RETURNS SETOF fencing.lease LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;

CREATE FUNCTION put(resource text, token bigint, result text) RETURNS void LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;
CREATE FUNCTION get(resource text) RETURNS text LANGUAGE plproxy AS $$
	CLUSTER 'shards'; RUN ON hashtext(resource);
$$;

GRANT USAGE ON SCHEMA fencing TO worker;
GRANT USAGE ON FOREIGN SERVER shards TO worker;
