// go_traps TRAP...: the traps of database/sql and lib/pq that docs/recipes/go.md tells of. Prints "TRAP: what came
// of it" for each.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/lib/pq"
)

const (
	bind   = "SELECT fencing.bind($1, $2)"
	update = "UPDATE report SET body = $1 WHERE name = $2"
)

// result is "ok", the SQLSTATE, or the text of an error that is not the server's.
func result(err error) string {
	var server *pq.Error
	if errors.As(err, &server) {
		return string(server.Code)
	} else if err != nil {
		return err.Error()
	}
	return "ok"
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func exec(db interface {
	Exec(string, ...interface{}) (sql.Result, error)
}, query string, arguments ...interface{}) error {
	_, err := db.Exec(query, arguments...)
	return err
}

func acquire(db *sql.DB, name string) (token int64) {
	must(db.QueryRow("SELECT token FROM fencing.acquire($1, '1 hour', steal => 'always')", name).Scan(&token))
	return token
}

func body(db *sql.DB, name string) (text string) {
	must(db.QueryRow("SELECT body FROM report WHERE name = $1", name).Scan(&text))
	return text
}

func begin(db *sql.DB) *sql.Tx {
	tx, err := db.Begin()
	must(err)
	return tx
}

// withoutTransaction: each call of a sql.DB takes any connection, and is a transaction of its own.
func withoutTransaction(db *sql.DB, name string) string {
	must(exec(db, bind, name, acquire(db, name)))
	return result(exec(db, update, "alone", name)) + ", " + body(db, name)
}

// foreignStatement: a statement that was prepared by the sql.DB does not run in the transaction that is open.
func foreignStatement(db *sql.DB, name string) string {
	token := acquire(db, name)
	stmt, err := db.Prepare(update)
	must(err)
	defer stmt.Close()
	tx := begin(db)
	defer tx.Rollback()
	must(exec(tx, bind, name, token))
	_, outside := stmt.Exec("outside", name)
	_, inside := tx.Stmt(stmt).Exec("inside", name)
	must(tx.Commit())
	return result(outside) + ", " + result(inside) + ", " + body(db, name)
}

// atCommit: the take-over comes after the last statement.
func atCommit(db *sql.DB, name string) string {
	tx := begin(db)
	defer tx.Rollback()
	token := acquire(db, name)
	must(exec(tx, bind, name, token))
	must(exec(tx, update, "late", name))
	acquire(db, name)
	return result(tx.Commit()) + ", " + body(db, name)
}

// ignoredRefusal: who does not look at the error of bind gets one from Commit.
func ignoredRefusal(db *sql.DB, name string) string {
	token := acquire(db, name)
	acquire(db, name)
	tx := begin(db)
	exec(tx, bind, name, token)
	exec(tx, update, "late", name)
	return result(tx.Commit()) + ", " + body(db, name)
}

// cancelled: a transaction whose context is cancelled by the heartbeat.
func cancelled(db *sql.DB, name string) string {
	token := acquire(db, name)
	ctx, cancel := context.WithCancel(context.Background())
	tx, err := db.BeginTx(ctx, nil)
	must(err)
	must(exec(tx, bind, name, token))
	must(exec(tx, update, "cancelled", name))
	cancel()
	return result(tx.Commit()) + ", " + body(db, name)
}

// smallPool: the heartbeat takes its connection from a pool whose only one the work has.
func smallPool(db *sql.DB, name string) string {
	token := acquire(db, name)
	db.SetMaxOpenConns(1)
	defer db.SetMaxOpenConns(0)
	tx := begin(db)
	defer tx.Rollback()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := db.ExecContext(ctx, "SELECT fencing.renew($1, $2)", name, token)
	return result(err)
}

func main() {
	traps := map[string]func(*sql.DB, string) string{
		"without transaction": withoutTransaction,
		"foreign statement":   foreignStatement,
		"at commit":           atCommit,
		"ignored refusal":     ignoredRefusal,
		"cancelled":           cancelled,
		"small pool":          smallPool,
	}
	db, err := sql.Open("postgres", "sslmode=disable")
	must(err)
	for _, name := range os.Args[1:] {
		fmt.Printf("%s: %s\n", name, traps[name](db, name))
	}
}
