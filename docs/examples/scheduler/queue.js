// queue.js: the queue, as all programs here see it. The connection is what PGHOST, PGDATABASE and so on say.
'use strict';

const { Pool } = require('pg');
const PgBoss = require('pg-boss');

const QUEUE = 'statement';

// How long a job may take before the queue hands it to another worker.
const expireInSeconds = Number(process.env.EXPIRE_SECONDS || 900);

const pool = new Pool();
pool.on('error', console.error);

async function startQueue(options) {
  const boss = new PgBoss({ db: { executeSql: (text, values) => pool.query(text, values) }, ...options });
  boss.on('error', console.error);
  await boss.start();
  return boss;
}

module.exports = { QUEUE, expireInSeconds, pool, startQueue };
