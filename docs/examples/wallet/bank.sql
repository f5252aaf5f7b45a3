-- bank.sql: the other bank, in another database. It pays once for each key.
CREATE TABLE payment (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL,
    amount bigint NOT NULL
);
ALTER TABLE payment ADD UNIQUE (key);   -- key
GRANT SELECT, INSERT ON payment TO app;
