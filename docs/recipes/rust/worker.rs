//! worker RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with tokio-postgres. The page
//! beside says what to mind.
use std::{env, process, time::Duration};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, IsolationLevel, NoTls};

struct Lease {
    resource: String,
    token: i64,
}

/// A connection. The driver does not look into the environment by itself.
async fn connect() -> Result<Client, Error> {
    let setting = |name| env::var(name).unwrap_or_default();
    let (client, connection) = Config::new()
        .host(&setting("PGHOST"))
        .port(setting("PGPORT").parse().unwrap_or(5432))
        .user(&setting("PGUSER"))
        .dbname(&setting("PGDATABASE"))
        .connect(NoTls)
        .await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn acquire(db: &Client, resource: &str, holder: &str, ttl: f64) -> Result<Option<Lease>, Error> {
    let sql = "SELECT token FROM fencing.acquire($1, make_interval(secs => $2), $3, '10 seconds')";
    let row = db.query_opt(sql, &[&resource, &ttl, &holder]).await?;
    Ok(row.map(|row| Lease { resource: resource.to_string(), token: row.get(0) }))
}

/// Renews every third of the ttl, on a connection of its own. Ends when the lease is lost: a renewal that fails, or
/// is not answered within the ttl, counts as that, since nobody knows any more.
async fn heartbeat(resource: String, token: i64, ttl: Duration) -> Result<(), Error> {
    let db = connect().await?;
    let sql = "SELECT fencing.renew($1, $2) IS NOT NULL";
    loop {
        tokio::time::sleep(ttl / 3).await;
        match tokio::time::timeout(ttl, db.query_one(sql, &[&resource, &token])).await {
            Ok(Ok(row)) if row.get(0) => {}
            _ => return Ok(()),
        }
    }
}

/// The work: yours goes here. It is dropped where it awaits when the lease is lost.
async fn work() -> String {
    let mut line = String::new();
    let _ = BufReader::new(tokio::io::stdin()).read_line(&mut line).await;
    line.trim_end().to_string()
}

async fn write_once(db: &mut Client, lease: &Lease, holder: &str, body: &str) -> Result<(), Error> {
    let tx = db.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await?;
    tx.execute("SELECT fencing.bind($1, $2)", &[&lease.resource, &lease.token]).await?; // fencing: comes first
    tx.execute("INSERT INTO report_log (name, holder) VALUES ($1, $2)", &[&lease.resource, &holder]).await?;
    tx.execute("UPDATE report SET body = $1, revision = revision + 1 WHERE name = $2", &[&body, &lease.resource])
        .await?;
    tx.commit().await
}

/// The whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker.
async fn write(db: &mut Client, lease: &Lease, holder: &str, body: &str) -> Result<(), Error> {
    loop {
        match write_once(db, lease, holder, body).await {
            Err(error)
                if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
                    || error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {}
            result => return result,
        }
    }
}

async fn run(resource: &str, holder: &str, ttl: f64) -> Result<i32, Error> {
    let mut db = connect().await?;
    let lease = match acquire(&db, resource, holder, ttl).await? {
        Some(lease) => lease,
        None => {
            println!("busy");
            return Ok(1);
        }
    };
    println!("granted {}", lease.token);
    let mut beat = tokio::spawn(heartbeat(resource.to_string(), lease.token, Duration::from_secs_f64(ttl)));
    let body = tokio::select! {
        biased;
        _ = &mut beat => None,
        body = work() => Some(body),
    };
    let mut status = 1;
    match body {
        None => println!("lost"),
        Some(body) => match write(&mut db, &lease, holder, &body).await {
            Ok(()) => {
                println!("written");
                status = 0;
            }
            Err(error) => println!("refused {}", error.code().map_or("", SqlState::code)),
        },
    }
    beat.abort();
    db.execute("SELECT fencing.release($1, $2)", &[&lease.resource, &lease.token]).await?;
    Ok(status)
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().collect();
    let ttl = arguments[3].parse().expect("seconds");
    // exit, since the runtime would wait for a line that the work has been reading.
    process::exit(run(&arguments[1], &arguments[2], ttl).await.unwrap_or_else(|error| {
        eprintln!("{error}");
        1
    }));
}
