// worker RESOURCE HOLDER TTL_SECONDS: writes a report under a lease, with database/sql and lib/pq. The page
// beside says what to mind.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/lib/pq"
)

// work is the work: yours goes here. It gives up when the context is done, since the lease is lost then.
func work(ctx context.Context) (string, error) {
	line := make(chan string, 1)
	go func() {
		text := bufio.NewScanner(os.Stdin)
		if text.Scan() {
			line <- text.Text()
		}
	}()
	select {
	case text := <-line:
		return text, ctx.Err()
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// heartbeat renews every third of the ttl until the context is done, and calls lost when it can do so no more.
// A renewal that fails counts as a lost lease: nobody knows any more.
func heartbeat(ctx context.Context, db *sql.DB, resource string, token int64, ttl time.Duration, lost func()) {
	defer lost()
	conn, err := db.Conn(ctx) // its own: it must not wait for one of the pool
	if err != nil {
		return
	}
	defer conn.Close()
	ticker := time.NewTicker(ttl / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var expires sql.NullTime
		// An answer that takes longer than the ttl is none.
		limited, cancel := context.WithTimeout(ctx, ttl)
		err := conn.QueryRowContext(limited, "SELECT fencing.renew($1, $2)", resource, token).Scan(&expires)
		cancel()
		if err != nil || !expires.Valid {
			return
		}
	}
}

// writeOnce writes in one transaction, and says what became of it.
func writeOnce(ctx context.Context, db *sql.DB, resource string, token int64, holder, body string) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement := func(query string, arguments ...interface{}) {
		if err == nil {
			_, err = tx.ExecContext(ctx, query, arguments...)
		}
	}
	statement("SELECT fencing.bind($1, $2)", resource, token) // fencing: first in every transaction
	statement("INSERT INTO report_log (name, holder) VALUES ($1, $2)", resource, holder)
	statement("UPDATE report SET body = $1, revision = revision + 1 WHERE name = $2", body, resource)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// sqlstate is the SQLSTATE of an error, or empty.
func sqlstate(err error) string {
	var server *pq.Error
	if errors.As(err, &server) {
		return string(server.Code)
	}
	return ""
}

// write tries the whole transaction again when it fails with class 40, and on nothing else: TK001 must end the worker.
func write(ctx context.Context, db *sql.DB, resource string, token int64, holder, body string) error {
	for {
		err := writeOnce(ctx, db, resource, token, holder, body)
		if state := sqlstate(err); state != "40001" && state != "40P01" {
			return err
		}
	}
}

func run(resource, holder string, ttl float64) (int, error) {
	// The rest comes from the environment. lib/pq's own sslmode is require.
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		return 1, err
	}
	defer db.Close()
	ctx := context.Background()
	var token int64
	err = db.QueryRowContext(ctx, "SELECT token FROM fencing.acquire($1, make_interval(secs => $2), $3, '10 seconds')",
		resource, ttl, holder).Scan(&token)
	if err == sql.ErrNoRows {
		fmt.Println("busy")
		return 1, nil
	} else if err != nil {
		return 1, err
	}
	defer db.ExecContext(ctx, "SELECT fencing.release($1, $2)", resource, token)
	fmt.Println("granted", token)

	held, lost := context.WithCancel(ctx)
	defer lost()
	go heartbeat(held, db, resource, token, time.Duration(ttl*float64(time.Second)), lost)
	body, err := work(held)
	if err != nil {
		fmt.Println("lost")
		return 1, nil
	}
	// Not with the context `held`: whether this write comes too late, the database decides.
	if err = write(ctx, db, resource, token, holder, body); err != nil {
		fmt.Println("refused", sqlstate(err))
		return 1, nil
	}
	fmt.Println("written")
	return 0, nil
}

func main() {
	ttl, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		log.Fatal(err)
	}
	status, err := run(os.Args[1], os.Args[2], ttl)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}
