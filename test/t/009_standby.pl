# 009_standby: on a hot standby every function that would change something is refused at once with the server's own
# 25006, and lookup answers; after promotion the same session goes on, with tokens greater than all that the standby
# has received (I1, I2).
#
# Caught here: a function that waits, or answers with no row, NULL or false, where it should refuse; state that a
# backend has worked out during recovery and keeps afterwards; a sequence whose log-ahead the promotion forgets.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = fencing_node('primary', allows_streaming => 1);
$primary->start;
$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
SELECT fencing.protect('account', 'fence_token');
INSERT INTO account VALUES (1, 100, 1);
SQL
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

my $held = $primary->safe_psql('postgres', q(SELECT token FROM fencing.acquire('held', '1 hour', 'worker 1')));
$primary->safe_psql('postgres', q(SELECT fencing.advance('external', 50)));
my $lookup = q(SELECT resource, token, holder, ttl, acquired_at, expires_at FROM fencing.lookup('held'));
my $on_primary = $primary->safe_psql('postgres', $lookup);
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

my $session = FencingSession->new($standby);
my @calls = (
	'SELECT fencing.next_token()',
	'SELECT fencing.fast_forward(1)',
	q(SELECT * FROM fencing.acquire('new')),
	q(SELECT * FROM fencing.acquire('held')),
	q(SELECT * FROM fencing.acquire('held', wait => '1 minute')),
	q(SELECT * FROM fencing.acquire('held', steal => 'always')),
	"SELECT fencing.renew('held', $held)",
	"SELECT fencing.renew('held', $held + 1)",
	"SELECT fencing.release('held', $held)",
	"SELECT fencing.release('held', $held + 1)",
	q(SELECT fencing.advance('external', 60)),
	q(SELECT fencing.advance('external', 50)),
	q(SELECT fencing.forget('external')),
	q(SELECT fencing.forget('unknown')),
	q(SELECT fencing.prune()));
foreach my $call (@calls)
{
	my $rows = $session->ask($call, 30);
	is($session->sqlstate, '25006', "standby: $call");
	is($rows, '', '... and nothing is answered');
}
is($session->get($lookup), $on_primary, 'lookup answers on a standby');
is($session->get(q(SELECT count(*) FROM fencing.lookup('unknown'))), '0', '... also for an unknown resource');
$session->get('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($session->get(q(SELECT token FROM fencing.lookup('external'))), '50', '... and at REPEATABLE READ');

# Draws up to the middle of the log-ahead, all of it received.
my $highest = $primary->safe_psql('postgres', 'SELECT max(fencing.next_token()) FROM generate_series(1, 50)');
my $last = $primary->safe_psql('postgres', q(SELECT token FROM fencing.acquire('last', '1 hour')));
$highest = $last if $last > $highest;
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($session->get(q(SELECT token FROM fencing.lookup('last'))), $last, 'lookup shows what was committed after the snapshot');
$session->get('COMMIT');

$primary->stop('immediate');
$standby->promote;

my $token = $session->get('SELECT fencing.next_token()');
cmp_ok($token, '>', $highest, 'after promotion the session draws, greater than all that were received');
my $next = $session->get(q(SELECT token FROM fencing.acquire('last', steal => 'always')));
cmp_ok($next, '>', $token, 'and is granted a resource, greater still');
is($session->get(q(SELECT count(*) FROM fencing.acquire('new'))), '1', 'a new resource is granted');
is($session->get(q(SELECT fencing.advance('external', 60))), '60', 'advance works');
is($session->state_of(q(SELECT fencing.advance('external', 59))), 'TK001', '... and knows its fence');
$session->get("UPDATE account SET balance = 1, fence_token = $next WHERE id = 1");
is($session->state_of("UPDATE account SET balance = 2, fence_token = $next - 1 WHERE id = 1"), 'TK001',
	'the guard refuses on the promoted server');
cmp_ok($standby->safe_psql('postgres', 'SELECT fencing.next_token()'), '>', $next, 'another session draws a greater one');

done_testing();
