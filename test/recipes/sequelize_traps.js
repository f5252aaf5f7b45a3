// sequelize_traps.js TRAP...: the traps of Sequelize that docs/recipes/sequelize.md tells of. Prints "TRAP: WHAT
// CAME OF IT". Each trap has a report of its name (docs/recipes/schema.sql); table entry is made by sequelize.pl.
import { AsyncLocalStorage } from 'node:async_hooks';
import { DataTypes, DatabaseError, QueryTypes, Sequelize } from 'sequelize';

const { PGHOST, PGPORT, PGDATABASE, PGUSER } = process.env;
let statements = [];

function connect(options = {}) {
  return new Sequelize(PGDATABASE, PGUSER, null,
    { dialect: 'postgres', host: PGHOST, port: PGPORT, logging: text => statements.push(text), ...options });
}

const plain = { timestamps: false, freezeTableName: true };

// A guard that takes a token from the column (source => 'any').
const entryOf = sequelize => sequelize.define('entry', {
  name: { type: DataTypes.TEXT, primaryKey: true },
  line: { type: DataTypes.INTEGER, primaryKey: true },
  amount: DataTypes.INTEGER,
  fenceToken: { type: DataTypes.BIGINT, field: 'fence_token' },
}, plain);

const reportOf = sequelize => sequelize.define('report', {
  name: { type: DataTypes.TEXT, primaryKey: true },
  body: DataTypes.TEXT,
}, plain);

const others = connect({ logging: false }); // whoever else there is

async function one(sequelize, sql, bind, transaction) {
  const [row] = await sequelize.query(sql, { bind, transaction, type: QueryTypes.SELECT });
  return row && Object.values(row)[0];
}

const take = name => one(others, "SELECT token::text FROM fencing.acquire($1, '1 hour', steal => 'always')", [name]);
const bind = (sequelize, name, token, transaction) =>
  one(sequelize, 'SELECT fencing.bind($1, $2)', [name, token], transaction);

// "ok", or the SQLSTATE.
async function outcome(attempt) {
  try {
    await attempt;
    return 'ok';
  } catch (error) {
    return error.original?.code ?? error.message;
  }
}

const traps = {
  // The first save writes a new token, the second one the same: it is no change, and not in the statement.
  'save': async (name, sequelize) => {
    const Entry = entryOf(sequelize);
    const fenceToken = await take(name);
    const entry = await Entry.create({ name, line: 1, amount: 1, fenceToken });
    entry.set({ amount: 2, fenceToken });
    statements = [];
    const second = await outcome(entry.save());
    const named = statements.join().includes('fence_token');
    entry.changed('fenceToken', true);
    const forced = await outcome(entry.save());
    const bound = await sequelize.transaction(async transaction => {
      await bind(sequelize, name, fenceToken, transaction);
      entry.amount = 3;
      return outcome(entry.save({ transaction }));
    });
    return `${second}, names the token ${named}, marked as changed ${forced}, bound ${bound}`;
  },

  // An instance that was read before somebody else wrote writes its own columns, over theirs, if nothing stops it.
  'old instance': async (name, sequelize) => {
    const Entry = entryOf(sequelize);
    const first = await take(name);
    const entry = await Entry.create({ name, line: 1, amount: 1, fenceToken: first });
    const second = await take(name);
    await Entry.update({ amount: 2, fenceToken: second }, { where: { name } });
    entry.set({ amount: 3 });
    entry.changed('fenceToken', true);
    return `${await outcome(entry.save())}, ${(await Entry.findOne({ where: { name } })).amount}`;
  },

  // Where it is given a valid token, what was computed from its old values is written.
  'new token in an old instance': async (name, sequelize) => {
    const Entry = entryOf(sequelize);
    const entry = await Entry.create({ name, line: 1, amount: 1, fenceToken: await take(name) });
    await Entry.update({ amount: 10, fenceToken: await take(name) }, { where: { name } });
    entry.set({ amount: entry.amount + 1, fenceToken: await take(name) });
    return `${await outcome(entry.save())}, ${(await Entry.findOne({ where: { name } })).amount}`;
  },

  'destroy': async (name, sequelize) => {
    const Entry = entryOf(sequelize);
    const fenceToken = await take(name);
    const entry = await Entry.create({ name, line: 1, amount: 1, fenceToken });
    const alone = await outcome(entry.destroy());
    const bound = await sequelize.transaction(async transaction => {
      await bind(sequelize, name, fenceToken, transaction);
      return outcome(entry.destroy({ transaction }));
    });
    return `${alone}, bound ${bound}, left ${await Entry.count({ where: { name } })}`;
  },

  'increment': async (name, sequelize) => {
    const Entry = entryOf(sequelize);
    const fenceToken = await take(name);
    const entry = await Entry.create({ name, line: 1, amount: 1, fenceToken });
    const alone = await outcome(entry.increment('amount'));
    const bound = await sequelize.transaction(async transaction => {
      await bind(sequelize, name, fenceToken, transaction);
      return outcome(entry.increment('amount', { transaction }));
    });
    await entry.reload();
    return `${alone}, bound ${bound}, ${entry.amount}`;
  },

  'bulkCreate': async (name, sequelize) => {
    const Entry = entryOf(sequelize);
    const fenceToken = await take(name);
    const rows = amount => [1, 2].map(line => ({ name, line, amount, fenceToken }));
    await Entry.bulkCreate(rows(1));
    const without = await outcome(Entry.bulkCreate(rows(2), { updateOnDuplicate: ['amount'] }));
    const named = await outcome(Entry.bulkCreate(rows(3), { updateOnDuplicate: ['amount', 'fenceToken'] }));
    const bound = await sequelize.transaction(async transaction => {
      await bind(sequelize, name, fenceToken, transaction);
      return outcome(Entry.bulkCreate(rows(5), { updateOnDuplicate: ['amount'], transaction }));
    });
    await take(name);
    const stale = await outcome(Entry.bulkCreate(rows(4), { updateOnDuplicate: ['amount', 'fenceToken'] }));
    return `${without}, token named ${named}, bound ${bound}, stale ${stale}, sum ${await Entry.sum('amount', { where: { name } })}`;
  },

  // The retry of Sequelize repeats the statement, not the transaction.
  'option retry': async name => {
    const stale = await take(name);
    await take(name);
    const results = [];
    for (const retry of [undefined, { max: 3, match: [DatabaseError], backoffBase: 1 }]) {
      const sequelize = connect(retry && { retry });
      statements = [];
      const result = await outcome(sequelize.transaction(transaction => bind(sequelize, name, stale, transaction)));
      results.push(`${result} after ${statements.filter(text => text.includes('fencing.bind')).length}`);
      await sequelize.close();
    }
    return results.join(', matching everything ');
  },

  'transaction not passed': async (name, sequelize) => {
    const Report = reportOf(sequelize);
    const token = await take(name);
    const result = await outcome(sequelize.transaction(async transaction => {
      await bind(sequelize, name, token, transaction);
      await Report.update({ body: 'x' }, { where: { name } });
    }));
    return `${result}, ${(await Report.findByPk(name)).body}`;
  },

  // Sequelize wants a namespace of cls-hooked; what it uses of one is in node.
  'CLS': async name => {
    const storage = new AsyncLocalStorage();
    Sequelize.useCLS({
      run: work => storage.run(new Map(), work),
      bind: work => AsyncLocalStorage.bind(work),
      get: key => storage.getStore()?.get(key),
      set: (key, value) => storage.getStore()?.set(key, value),
    });
    const sequelize = connect();
    const Report = reportOf(sequelize);
    const token = await take(name);
    const result = await outcome(sequelize.transaction(async () => {
      await bind(sequelize, name, token);
      await Report.update({ body: 'x' }, { where: { name } });
    }));
    const report = await Report.findByPk(name);
    delete Sequelize._cls;
    await sequelize.close();
    return `${result}, ${report.body}`;
  },

  'commit': async (name, sequelize) => {
    const Report = reportOf(sequelize);
    const token = await take(name);
    const error = await sequelize.transaction(async transaction => {
      await bind(sequelize, name, token, transaction);
      await Report.update({ body: 'x' }, { where: { name }, transaction });
      await take(name);
    }).catch(caught => caught);
    return `${error.name} ${error.original?.code}, ${(await Report.findByPk(name)).body}`;
  },

  'token': async (name, sequelize) => {
    const Entry = entryOf(sequelize);
    const fenceToken = await take(name);
    await Entry.create({ name, line: 1, amount: 1, fenceToken });
    const entry = await Entry.findOne({ where: { name } });
    const rounded = String(Number(fenceToken));
    return `${typeof entry.fenceToken} ${entry.fenceToken === fenceToken}, Number() ${rounded === fenceToken}`;
  },
};

for (const name of process.argv.slice(2)) {
  const sequelize = connect();
  console.log(`${name}: ${await traps[name](name, sequelize)}`);
  await sequelize.close();
}
await others.close();
