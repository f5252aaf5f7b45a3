// hold_worker.js: a worker of docs/examples/scheduler whose rendering a test steers: it says what it renders, and has
// finished when a line comes on standard input.
//
//     hold_worker.js FOLDER-OF-THE-EXAMPLE
'use strict';

const { createInterface } = require('node:readline');
const { once } = require('node:events');

const { startWorker } = require(`${process.argv[2]}/worker`);

const input = createInterface({ input: process.stdin });

startWorker(async (customer, { purchases, total }) => {
  const line = once(input, 'line');
  console.log(`rendering ${customer}: ${purchases} purchases, ${total}`);
  await line;
  return 'held';
});
