-- foreign_shard.sql: what each shard of docs/sharding/foreign.sql has: the table, its fence and its leases.
CREATE EXTENSION fencing;
CREATE TABLE invoice (region text, id int, amount numeric, fence_token bigint, PRIMARY KEY (region, id));
SELECT fencing.protect('invoice', 'fence_token', resource => 'invoice:{region}:{id}');
