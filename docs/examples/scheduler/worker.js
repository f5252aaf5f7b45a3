// worker.js: take jobs from the queue and write statements.
//
//     node worker.js
'use strict';

const { QUEUE, expireInSeconds, pool, startQueue } = require('./queue');

// Whatever takes long; here it does not.
async function render(customer, { purchases, total }) {
  return `Customer ${customer}: ${purchases} purchases, ${total} in all.`;
}

async function writeStatement(customer, render) {
  const resource = `statement:${customer}`;
  // The lease of a worker that has lost its job expires shortly after the job: wait for that.
  const acquire = "SELECT token FROM fencing.acquire($1, $2, wait => '10 seconds')"; // fencing
  const { rows: [lease] } = await pool.query(acquire, [resource, `${expireInSeconds} seconds`]); // fencing
  if (!lease) throw new Error(`${resource} is held by somebody else`); // fencing
  try {
    const { rows: [sums] } = await pool.query(
      'SELECT count(*) AS purchases, coalesce(sum(amount), 0) AS total FROM purchase WHERE customer = $1',
      [customer]);
    const body = await render(customer, sums);
    const db = await pool.connect();
    try {
      await db.query('BEGIN');
      await db.query('SELECT fencing.bind($1, $2)', [resource, lease.token]); // fencing
      await db.query(
        `INSERT INTO statement (customer, purchases, total, body) VALUES ($1, $2, $3, $4)
         ON CONFLICT (customer) DO UPDATE
         SET purchases = excluded.purchases, total = excluded.total, body = excluded.body`,
        [customer, sums.purchases, sums.total, body]);
      await db.query('COMMIT');
      db.release();
    } catch (error) {
      db.release(error); // closes the connection, and with it the transaction
      throw error;
    }
  } finally {
    await pool.query('SELECT fencing.release($1, $2)', [resource, lease.token]); // fencing
  }
}

// Each job ends with a line on standard output. The queue hears of an error, and hands the job out again.
async function startWorker(render) {
  const boss = await startQueue({ noSupervisor: true, noScheduling: true });
  await boss.work(QUEUE, { newJobCheckInterval: 100 }, async ({ data: { customer } }) => {
    try {
      await writeStatement(customer, render);
      console.log(`statement ${customer}: written`);
    } catch (error) {
      console.log(`statement ${customer}: ${error.code || 'failed'} ${error.message}`);
      throw error;
    }
  });
}

module.exports = { startWorker };

if (require.main === module) startWorker(render);
