// schedule.js: queue a statement for each customer named on the command line, and keep the queue in order: jobs that
// have taken too long go to another worker.
//
//     node schedule.js 1 2 3
'use strict';

const { QUEUE, expireInSeconds, startQueue } = require('./queue');

async function main(customers) {
  const boss = await startQueue({ noScheduling: true, maintenanceIntervalSeconds: 1 });
  for (const customer of customers) {
    await boss.send(QUEUE, { customer: Number(customer) }, { expireInSeconds, retryLimit: 5 });
  }
  console.log(`queued ${customers.length}`);
}

main(process.argv.slice(2));
