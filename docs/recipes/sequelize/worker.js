// worker.js RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with Sequelize 6. The page beside says
// what to mind.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { BaseError, DataTypes, QueryTypes, Sequelize, Transaction } from 'sequelize';

const { PGHOST, PGPORT, PGDATABASE, PGUSER } = process.env;
const sequelize = new Sequelize(PGDATABASE, PGUSER, null,
  { dialect: 'postgres', host: PGHOST, port: PGPORT, pool: { max: 2 }, logging: false });
const plain = { timestamps: false, freezeTableName: true };
// No fence_token: the guard writes it, from what the transaction is bound to.
const Report = sequelize.define('report', {
  name: { type: DataTypes.TEXT, primaryKey: true },
  body: DataTypes.TEXT,
  revision: DataTypes.INTEGER,
}, plain);
const ReportLog = sequelize.define('report_log', {
  id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
  name: DataTypes.TEXT,
  holder: DataTypes.TEXT,
}, plain);

// One row of a query. Tokens are strings: a number of JavaScript has 53 bits, a token has 64.
async function row(sql, bind, transaction) {
  const [found] = await sequelize.query(sql, { bind, transaction, type: QueryTypes.SELECT });
  return found;
}

// The work: yours goes here. It gives up when the signal is aborted, as everything in node can that takes a signal.
async function work(signal) {
  const [line] = await once(createInterface({ input: process.stdin }), 'line', { signal });
  return line;
}

// Renews every third of the ttl. A renewal that fails, or has no answer in time, counts as a lost lease: nobody knows
// any more. On a plain client of the driver: a pool could be used up by transactions.
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
async function write(resource, token, holder, body) {
  while (true) {
    try {
      const isolationLevel = Transaction.ISOLATION_LEVELS.REPEATABLE_READ;
      return await sequelize.transaction({ isolationLevel }, async transaction => {
        await row('SELECT fencing.bind($1, $2)', [resource, token], transaction); // fencing: first in every transaction
        await ReportLog.create({ name: resource, holder }, { transaction });
        const report = await Report.findByPk(resource, { transaction });
        report.body = body;
        report.revision += 1;
        await report.save({ transaction });
      });
    } catch (error) {
      if (!['40001', '40P01'].includes(error.original?.code)) throw error;
    }
  }
}

async function main(resource, holder, ttl) {
  const lease = await row("SELECT token::text FROM fencing.acquire($1, make_interval(secs => $2), $3, '10 seconds')",
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
    await write(resource, token, holder, body);
    console.log('written');
    return 0;
  } catch (error) {
    if (lost.signal.aborted && error.name === 'AbortError') console.log('lost');
    else if (error instanceof BaseError) console.log(`refused ${error.original?.code}`);
    else throw error;
    return 1;
  } finally {
    done.abort();
    await row('SELECT fencing.release($1, $2)', [resource, token]);
    await sequelize.close();
  }
}

const [resource, holder, ttl] = process.argv.slice(2);
process.exit(await main(resource, holder, Number(ttl)));
