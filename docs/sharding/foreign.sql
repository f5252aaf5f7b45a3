-- foreign.sql: one table, whose partitions are tables on the shards (postgres_fdw). Nothing is protected here: the
-- shards refuse. Variables of psql: for each shard host0, port0, dbname0, and so on.
CREATE EXTENSION postgres_fdw;
CREATE SERVER shard0 FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'host0', port :'port0', dbname :'dbname0');
CREATE SERVER shard1 FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host :'host1', port :'port1', dbname :'dbname1');
CREATE USER MAPPING FOR CURRENT_USER SERVER shard0;
CREATE USER MAPPING FOR CURRENT_USER SERVER shard1;

CREATE TABLE invoice (region text, id int, amount numeric, fence_token bigint) PARTITION BY LIST (region);
CREATE FOREIGN TABLE invoice_eu PARTITION OF invoice FOR VALUES IN ('eu') SERVER shard0 OPTIONS (table_name 'invoice');
CREATE FOREIGN TABLE invoice_us PARTITION OF invoice FOR VALUES IN ('us') SERVER shard1 OPTIONS (table_name 'invoice');
