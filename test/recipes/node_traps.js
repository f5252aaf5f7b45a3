// node_traps.js TRAP...: the traps of node-postgres that docs/recipes/node.md tells of. Prints "TRAP: WHAT CAME OF IT".
// Each trap has a report of its name (docs/recipes/schema.sql).
import { once } from 'node:events';
import pg from 'pg';

const BIND = 'SELECT fencing.bind($1, $2)';
const UPDATE = "UPDATE report SET body = 'x' WHERE name = $1";
const others = new pg.Pool({ max: 1 }); // whoever else there is

async function one(db, sql, values) {
  const { rows } = await db.query({ text: sql, values, rowMode: 'array' });
  return rows.length ? rows[0][0] : 'no row';
}

const take = name => one(others, "SELECT token::text FROM fencing.acquire($1, '1 hour', steal => 'always')", [name]);
const body = name => one(others, 'SELECT body FROM report WHERE name = $1', [name]);

// "ok", or the SQLSTATE.
async function outcome(attempt) {
  try {
    await attempt;
    return 'ok';
  } catch (error) {
    return error.code;
  }
}

async function withPool(max, use) {
  const pool = new pg.Pool({ max });
  try {
    return await use(pool);
  } finally {
    await pool.end();
  }
}

const traps = {
  // Each pool.query() takes whichever client is free. Here another part of the program takes the one with the BEGIN.
  'BEGIN on the pool': name => withPool(2, async pool => {
    await pool.query('BEGIN');
    await pool.query(BIND, [name, await take(name)]);
    const another = await pool.connect();
    const bound = await one(another, 'SELECT count(*) FROM fencing.bound()');
    const write = await outcome(pool.query(UPDATE, [name]));
    await another.query('ROLLBACK');
    another.release();
    return `another part of the program is bound to ${bound}, the write ${write}, ${await body(name)}`;
  }),

  // Without a guard nobody notices: report_log has none.
  'table without guard': name => withPool(2, async pool => {
    const stale = await take(name);
    await pool.query('BEGIN');
    await pool.query(BIND, [name, stale]);
    await take(name);
    const another = await pool.connect();
    const write = await outcome(pool.query("INSERT INTO report_log (name, holder) VALUES ($1, 'w')", [name]));
    another.release();
    const commit = await outcome(pool.query('COMMIT'));
    const lines = await one(others, 'SELECT count(*) FROM report_log WHERE name = $1', [name]);
    return `the write ${write}, COMMIT ${commit}, lines ${lines}`;
  }),

  // A client that goes back in the middle of a transaction: the next one finds itself in it.
  'released too soon': name => withPool(1, async pool => {
    const client = await pool.connect();
    await client.query('BEGIN');
    await client.query(BIND, [name, await take(name)]);
    client.release();
    const bound = await one(pool, 'SELECT resource FROM fencing.bound()');
    await pool.query('ROLLBACK');
    return `the next one is bound to ${bound}`;
  }),

  'bind alone': name => withPool(1, async pool => {
    await pool.query(BIND, [name, await take(name)]);
    return `${await outcome(pool.query(UPDATE, [name]))}, ${await body(name)}`;
  }),

  'SET on the pool': name => withPool(1, async pool => {
    await pool.query(`SET fencing.token = ${await take(name)}`);
    const error = await pool.query(UPDATE, [name]).catch(caught => caught);
    return `${error.code} ${error.hint}`;
  }),

  'one statement': name => withPool(1, async pool => {
    const sql = "UPDATE report SET body = 'x' FROM fencing.bind($1, $2) WHERE name = $1";
    return `${await outcome(pool.query(sql, [name, await take(name)]))}, ${await body(name)}`;
  }),

  'set_config': name => withPool(1, async pool => {
    const client = await pool.connect();
    await client.query('BEGIN');
    await client.query("SELECT set_config('fencing.token', $1, true)", [await take(name)]);
    const write = await outcome(client.query(UPDATE, [name]));
    await client.query('COMMIT');
    client.release();
    return `${write}, ${await body(name)}`;
  }),

  // The connection of a client that waits in the pool is cut.
  'idle': () => withPool(1, async pool => {
    const pid = await one(pool, 'SELECT pg_backend_pid()');
    const event = once(pool, 'error');
    await others.query('SELECT pg_terminate_backend($1)', [pid]);
    const [error] = await event;
    return `event ${error.code}, then ${await outcome(pool.query('SELECT 1'))}`;
  }),

  // The fields of a refusal.
  'error': name => withPool(1, async pool => {
    const stale = await take(name);
    await take(name);
    const error = await pool.query(BIND, [name, stale]).catch(caught => caught);
    return `${error instanceof pg.DatabaseError} ${error.code} ${error.severity} ${error.message}`;
  }),

  // COMMIT after a refusal that was caught: no error, but its answer is ROLLBACK.
  'swallowed': name => withPool(1, async pool => {
    const stale = await take(name);
    await take(name);
    const client = await pool.connect();
    await client.query('BEGIN');
    const bind = await outcome(client.query(BIND, [name, stale]));
    const { command } = await client.query('COMMIT');
    client.release();
    return `${bind}, COMMIT answers ${command}`;
  }),

  'commit': name => withPool(1, async pool => {
    const client = await pool.connect();
    await client.query('BEGIN');
    await client.query(BIND, [name, await take(name)]);
    await client.query(UPDATE, [name]);
    await take(name);
    const commit = await outcome(client.query('COMMIT'));
    client.release();
    return `${commit}, ${await body(name)}`;
  }),

  // A named statement is prepared once for each connection.
  'prepared': name => withPool(1, async pool => {
    const token = await take(name);
    const bind = { name: 'bind', text: BIND, values: [name, token] };
    await pool.query(bind);
    await pool.query(bind);
    const kept = await one(pool, "SELECT count(*) FROM pg_prepared_statements WHERE name = 'bind'");
    await take(name);
    return `${kept} prepared, ${await outcome(pool.query(bind))}`;
  }),

  // A timer needs the event loop. Here the work does not give it back for longer than the ttl.
  'busy loop': async name => {
    const token = await one(others, "SELECT token::text FROM fencing.acquire($1, '500 ms')", [name]);
    let beats = 0;
    const timer = setInterval(() => beats++, 100);
    const until = performance.now() + 700;
    while (performance.now() < until);
    const renewed = await one(others, 'SELECT fencing.renew($1, $2)', [name, token]);
    clearInterval(timer);
    return `${beats > 1 ? 'some' : 'no'} heartbeats, renew ${renewed}`;
  },

  // Tokens of a late epoch: the test has moved the sequence. Number() makes another token of it.
  'large token': name => withPool(1, async pool => {
    const { rows: [{ token }] } = await pool.query("SELECT token FROM fencing.acquire($1, '1 hour')", [name]);
    const exact = await outcome(pool.query(BIND, [name, token]));
    const rounded = await outcome(pool.query(BIND, [name, Number(token)]));
    const getTypeParser = (oid, format) => oid === 20 ? Number : pg.types.getTypeParser(oid, format);
    const client = new pg.Client({ types: { getTypeParser } });
    await client.connect();
    const parsed = await one(client, 'SELECT token FROM fencing.lookup($1)', [name]);
    const text = await one(client, 'SELECT token::text FROM fencing.lookup($1)', [name]);
    await client.end();
    const kept = [parsed, text].map(value => String(value) === token);
    return `${typeof token} ${exact}, Number() ${rounded}, parser for int8 ${kept[0]}, token::text ${kept[1]}`;
  }),
};

for (const name of process.argv.slice(2)) console.log(`${name}: ${await traps[name](name)}`);
await others.end();
