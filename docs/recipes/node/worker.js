// worker.js RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with node-postgres. The page beside says
// what to mind.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

// The work: yours goes here. It gives up when the signal is aborted, as everything in node can that takes a signal.
async function work(signal) {
  const [line] = await once(createInterface({ input: process.stdin }), 'line', { signal });
  return line;
}

// Renews every third of the ttl. A renewal that fails, or has no answer in time, counts as a lost lease: nobody knows
// any more.
async function heartbeat(resource, token, ttl, done, lost) {
  const third = ttl * 1000 / 3;
  const client = new pg.Client({ query_timeout: third });
  client.on('error', () => {}); // the next query tells; without a listener the process would end
  try {
    await client.connect();
    while (true) {
      await sleep(third, null, { signal: done });
      const { rows } = await client.query('SELECT fencing.renew($1, $2)', [resource, token]);
      if (rows[0].renew === null) break;
    }
  } catch (error) {
    if (done.aborted) return;
  } finally {
    client.end().catch(() => {});
  }
  lost.abort();
}

// The whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker.
async function write(pool, resource, token, holder, body) {
  while (true) {
    const client = await pool.connect(); // one client for the whole transaction, never pool.query()
    try {
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await client.query('SELECT fencing.bind($1, $2)', [resource, token]); // fencing: first in every transaction
      await client.query('INSERT INTO report_log (name, holder) VALUES ($1, $2)', [resource, holder]);
      await client.query('UPDATE report SET body = $1, revision = revision + 1 WHERE name = $2', [body, resource]);
      await client.query('COMMIT'); // may be refused with TK001 as well: then nothing is committed
      return;
    } catch (error) {
      await client.query('ROLLBACK').catch(() => {}); // a lost connection must not hide the error
      if (error.code !== '40001' && error.code !== '40P01') throw error;
    } finally {
      client.release();
    }
  }
}

async function main(resource, holder, ttl) {
  const pool = new pg.Pool({ max: 2 }); // the connection: PGHOST, PGPORT, PGUSER, PGDATABASE
  pool.on('error', () => {});
  // token::text: a token has 64 bits, and must stay a string where the application has a parser for int8.
  const { rows: [lease] } = await pool.query(
    "SELECT token::text FROM fencing.acquire($1, make_interval(secs => $2), $3, '10 seconds')",
    [resource, ttl, holder]);
  if (!lease) {
    console.log('busy');
    return 1;
  }
  const { token } = lease;
  console.log(`granted ${token}`);
  const done = new AbortController();
  const lost = new AbortController();
  heartbeat(resource, token, ttl, done.signal, lost);
  try {
    const body = await work(lost.signal);
    await write(pool, resource, token, holder, body);
    console.log('written');
    return 0;
  } catch (error) {
    if (lost.signal.aborted && error.name === 'AbortError') console.log('lost');
    else if (error instanceof pg.DatabaseError) console.log(`refused ${error.code}`);
    else throw error;
    return 1;
  } finally {
    done.abort();
    await pool.query('SELECT fencing.release($1, $2)', [resource, token]);
    await pool.end();
  }
}

const [resource, holder, ttl] = process.argv.slice(2);
process.exit(await main(resource, holder, Number(ttl)));
