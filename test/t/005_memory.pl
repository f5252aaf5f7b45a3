# 005_memory: an error inside any function leaves the backend usable and takes no memory along: 20,000 caught refusals
# of each kind in one session grow it by less than 2 MB, in one transaction as well as over it.
#
# Counted twice: the server's own memory contexts, inside the transaction that catches the errors, and the private
# memory of the process (RssAnon), which also shows what malloc gave.
# Caught here: a record kept per call or per savepoint in the transaction's or the session's memory; a setting's
# malloc'd extra that nobody frees; a list that a refusal leaves longer; an SPI connection or a snapshot left open.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $limit = 2 * 1024 * 1024;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
CREATE TABLE watched (id int PRIMARY KEY, balance int, fence_token bigint);
INSERT INTO account VALUES (1, 100, 34);
INSERT INTO watched VALUES (1, 100, 34);
SELECT fencing.protect('account', 'fence_token');
SELECT fencing.protect('watched', 'fence_token', mode => 'observe');
CREATE TABLE unguarded (id int PRIMARY KEY, balance int, fence_token text);
SELECT fencing.acquire('held', '1 hour');
SELECT fencing.advance('external', 50);

-- Runs the statement so many times, each time in a savepoint that is rolled back, and expects the SQLSTATE. The
-- growth of the memory contexts from the first to the last of them.
CREATE FUNCTION refusals(statement text, expected text, times int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	before bigint;
	got text;
BEGIN
	SELECT sum(total_bytes) INTO before FROM pg_backend_memory_contexts;
	FOR i IN 1 .. times LOOP
		BEGIN
			EXECUTE statement;
			RAISE SQLSTATE '99000';
		EXCEPTION WHEN OTHERS THEN
			got := SQLSTATE;
		END;
		IF got <> expected THEN
			RAISE EXCEPTION 'got % instead of % from %', got, expected, statement;
		END IF;
	END LOOP;
	RETURN (SELECT sum(total_bytes) - before FROM pg_backend_memory_contexts);
END $$;
SQL

sub private_memory
{
	my ($pid) = @_;
	my $status = slurp_file("/proc/$pid/status");
	$status =~ /^RssAnon:\s+(\d+) kB/m or die "no RssAnon in /proc/$pid/status\n";
	return $1 * 1024;
}

my @refusals = (
	['guard: stale token', 'TK001', 'UPDATE account SET balance = 1, fence_token = 33 WHERE id = 1'],
	['guard: missing token', 'TK002', 'UPDATE account SET balance = 1 WHERE id = 1'],
	['guard: missing token in a DELETE', 'TK002', 'DELETE FROM account'],
	['guard: missing token in a TRUNCATE', 'TK002', 'TRUNCATE account'],
	['guard: negative token', '22023', 'UPDATE account SET fence_token = -1'],
	['guard: stale token that is only observed', '99000', 'UPDATE watched SET balance = 1, fence_token = 33 WHERE id = 1'],
	['fencing.token with a stale one', 'TK001', q(DO 'BEGIN SET LOCAL fencing.token = 33; UPDATE account SET balance = 1; END')],
	['fencing.token with a bad one', '22023', q(SET LOCAL fencing.token = 'x')],
	['fencing.token set again and again', '99000', q(SET LOCAL fencing.token = 34)],
	['acquire: bad time to live', '22023', q(SELECT fencing.acquire('new', '0'))],
	['acquire: NULL', '22004', q(SELECT fencing.acquire(NULL))],
	['acquire: bad steal', '22023', q(SELECT fencing.acquire('new', steal => 'sometimes'))],
	['acquire: other issuer', '55000', q(SELECT fencing.acquire('external'))],
	['acquire: no row', '99000', q(SELECT fencing.acquire('held'))],
	['renew: NULL', '22004', q(SELECT fencing.renew('held', NULL))],
	['renew: bad time to live', '22023', q(SELECT fencing.renew('held', 1, '-1 s'))],
	['renew: lost', '99000', q(SELECT fencing.renew('held', 1000))],
	['release: bad token', '22023', q(SELECT fencing.release('held', 0))],
	['release: lost', '99000', q(SELECT fencing.release('held', 1000))],
	['advance: stale token', 'TK001', q(SELECT fencing.advance('external', 49))],
	['advance: other issuer', '55000', q(SELECT fencing.advance('held', 1000))],
	['prune: bad value', '22023', q(SELECT fencing.prune('-1 day'))],
	['forget: bad name', '22023', q(SELECT fencing.forget(''))],
	['lookup: NULL', '22004', q(SELECT fencing.lookup(NULL))],
	['fast_forward: bad value', '22023', q(SELECT fencing.fast_forward(-1))],
	['bind: unissued token', 'TK003', q(SELECT fencing.bind('unknown', 1))],
	['bind: stale token', 'TK001', q(SELECT fencing.bind('external', 49))],
	['protect: no such column', '42703', q(SELECT fencing.protect('unguarded', 'nothing'))],
	['protect: wrong type', '42804', q(SELECT fencing.protect('unguarded', 'fence_token'))]);

my $session = FencingSession->new($node);
$session->get(q(SET client_min_messages = error));
# What is loaded, cached and prepared once is no leak.
$session->get(sprintf q(SELECT refusals($s$%s$s$, '%s', 500)), @$_[2, 1]) foreach @refusals;
my $at_first = private_memory($session->pid);
foreach my $case (@refusals)
{
	my ($name, $state, $statement) = @$case;
	my $before = private_memory($session->pid);
	my $grown = $session->get(sprintf(q(SELECT refusals($s$%s$s$, '%s', 20000)), $statement, $state), 120);
	my $after = private_memory($session->pid);
	cmp_ok($grown, '<', $limit, "$name: memory contexts grow by $grown bytes in a transaction of 20,000");
	cmp_ok($after - $before, '<', $limit, '... and the process by ' . ($after - $before));
}
my $in_all = private_memory($session->pid) - $at_first;
cmp_ok($in_all, '<', $limit, "all of them together grow the process by $in_all bytes");

# The same session works.
my $token = $session->get(q(SELECT token FROM fencing.acquire('afterwards', '1 hour')));
like($token, qr/^\d+$/, 'afterwards the session is granted a lease');
$session->get("UPDATE account SET balance = 7, fence_token = 34 + $token WHERE id = 1");
is($session->get('SELECT balance FROM account'), '7', '... and writes');
is($session->get("SELECT fencing.release('afterwards', $token)"), 't', '... and releases');
is($session->get('SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype NOT IN (\'virtualxid\', \'relation\')'), '0', 'it holds no lock');

done_testing();
