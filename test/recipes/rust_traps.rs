//! rust_traps TRAP...: the traps of tokio-postgres that docs/recipes/rust.md tells of. Prints "TRAP: what came of it"
//! for each.
use std::env;

use tokio_postgres::{Client, Config, Error, NoTls};

const BIND: &str = "SELECT fencing.bind($1, $2)";
const UPDATE: &str = "UPDATE report SET body = $1 WHERE name = $2";

async fn connect() -> Result<Client, Error> {
    let setting = |name| env::var(name).unwrap();
    let (client, connection) = Config::new()
        .host(&setting("PGHOST"))
        .port(setting("PGPORT").parse().unwrap())
        .user(&setting("PGUSER"))
        .dbname(&setting("PGDATABASE"))
        .connect(NoTls)
        .await?;
    tokio::spawn(connection);
    Ok(client)
}

fn result<T>(answer: Result<T, Error>) -> String {
    match answer {
        Ok(_) => "ok".to_string(),
        Err(error) => error.code().map_or(error.to_string(), |code| code.code().to_string()),
    }
}

async fn acquire(db: &Client, name: &str) -> Result<i64, Error> {
    let sql = "SELECT token FROM fencing.acquire($1, '1 hour', steal => 'always')";
    Ok(db.query_one(sql, &[&name]).await?.get(0))
}

async fn body(db: &Client, name: &str) -> Result<String, Error> {
    Ok(db.query_one("SELECT body FROM report WHERE name = $1", &[&name]).await?.get(0))
}

/// Without a transaction, each call is one of its own.
async fn without_transaction(db: &Client, name: &str) -> Result<String, Error> {
    db.execute(BIND, &[&name, &acquire(db, name).await?]).await?;
    let written = db.execute(UPDATE, &[&"alone", &name]).await;
    Ok(format!("{}, {}", result(written), body(db, name).await?))
}

/// The take-over comes after the last statement.
async fn at_commit(db: &mut Client, other: &Client, name: &str) -> Result<String, Error> {
    let token = acquire(db, name).await?;
    let tx = db.transaction().await?;
    tx.execute(BIND, &[&name, &token]).await?;
    tx.execute(UPDATE, &[&"late", &name]).await?;
    acquire(other, name).await?;
    let committed = tx.commit().await;
    Ok(format!("{}, {}", result(committed), body(db, name).await?))
}

/// Who does not look at the error of bind: commit() says Ok.
async fn ignored_refusal(db: &mut Client, name: &str) -> Result<String, Error> {
    let token = acquire(db, name).await?;
    acquire(db, name).await?;
    let tx = db.transaction().await?;
    let bound = tx.execute(BIND, &[&name, &token]).await;
    let written = tx.execute(UPDATE, &[&"late", &name]).await;
    let committed = tx.commit().await;
    Ok(format!("{}, {}, {}, {}", result(bound), result(written), result(committed), body(db, name).await?))
}

/// A prepared bind asks anew each time.
async fn prepared(db: &mut Client, name: &str) -> Result<String, Error> {
    let bind = db.prepare(BIND).await?;
    let token = acquire(db, name).await?;
    let first = db.execute(&bind, &[&name, &token]).await;
    acquire(db, name).await?;
    let second = db.execute(&bind, &[&name, &token]).await;
    Ok(format!("{}, {}", result(first), result(second)))
}

/// A transaction that is dropped is rolled back.
async fn dropped(db: &mut Client, name: &str) -> Result<String, Error> {
    let token = acquire(db, name).await?;
    {
        let tx = db.transaction().await?;
        tx.execute(BIND, &[&name, &token]).await?;
        tx.execute(UPDATE, &[&"dropped", &name]).await?;
    }
    body(db, name).await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut db = connect().await?;
    let other = connect().await?;
    for name in env::args().skip(1) {
        let name = name.as_str();
        let answer = match name {
            "without transaction" => without_transaction(&db, name).await?,
            "at commit" => at_commit(&mut db, &other, name).await?,
            "ignored refusal" => ignored_refusal(&mut db, name).await?,
            "prepared" => prepared(&mut db, name).await?,
            "dropped" => dropped(&mut db, name).await?,
            _ => panic!("there is no trap {name}"),
        };
        println!("{name}: {answer}");
    }
    Ok(())
}
