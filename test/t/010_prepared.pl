# 010_prepared: PREPARE TRANSACTION after acquire, advance, renew, release, prune or forget is refused (0A000), also
# when the call changed nothing; undone by ROLLBACK TO it is allowed. A prepared transaction that has only written
# guarded rows is allowed, and delays no acquire (I6).
#
# Caught here: a check left out of one of the functions, or done only where something was written; a mark that a
# savepoint's RELEASE loses or its ROLLBACK keeps; a prepared transaction that leaves a lease nobody can take.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "max_prepared_transactions = 10\nlog_statement = none\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
SELECT fencing.protect('account', 'fence_token');
INSERT INTO account VALUES (1, 100, 1), (2, 100, 1);
SQL

my $session = FencingSession->new($node);
my $other = FencingSession->new($node);
my $held = $session->get(q(SELECT token FROM fencing.acquire('held', '1 hour')));
$session->get(q(SELECT fencing.advance('external', 50)));

my @calls = (
	['acquire', q(SELECT count(*) FROM fencing.acquire('new'))],
	['acquire that steals', q(SELECT count(*) FROM fencing.acquire('held', steal => 'always'))],
	['acquire without a row', q(SELECT count(*) FROM fencing.acquire('held'))],
	['advance', q(SELECT fencing.advance('external', 60))],
	['advance of an unknown resource', q(SELECT fencing.advance('external-new', 60))],
	['advance to the same', q(SELECT fencing.advance('external', 50))],
	['renew', "SELECT fencing.renew('held', $held)"],
	['renew that is too late', "SELECT fencing.renew('held', $held + 1000)"],
	['release', "SELECT fencing.release('held', $held)"],
	['release with another token', "SELECT fencing.release('held', $held + 1000)"],
	['prune', q(SELECT fencing.prune('0'))],
	['prune of nothing', q(SELECT fencing.prune('10 years'))],
	['forget', q(SELECT fencing.forget('external'))],
	['forget of nothing', q(SELECT fencing.forget('unknown'))]);
my $state = q(SELECT resource, token, expires_at FROM fencing.fence ORDER BY resource);
my $before = $other->get($state);
foreach my $case (@calls)
{
	my ($name, $call) = @$case;

	$session->get('BEGIN');
	$session->get($call);
	is($session->state_of(q(PREPARE TRANSACTION 'refused')), '0A000', "$name: cannot be prepared");
	is($session->state_of('SELECT 1'), '00000', '... and the transaction is over');

	$session->get('BEGIN');
	$session->get('SAVEPOINT s');
	$session->get($call);
	$session->get('RELEASE s');
	is($session->state_of(q(PREPARE TRANSACTION 'refused')), '0A000', '... nor after RELEASE of its savepoint');

	$session->get('BEGIN');
	$session->get('SAVEPOINT s');
	$session->get($call);
	$session->get('ROLLBACK TO s');
	is($session->state_of(q(PREPARE TRANSACTION 'undone')), '00000', '... but after ROLLBACK TO it can');
	$session->get(q(ROLLBACK PREPARED 'undone'));

	$session->get('BEGIN');
	$session->get($call);
	$session->get('ROLLBACK');
	$session->get('BEGIN');
	$session->get('SELECT 1');
	is($session->state_of(q(PREPARE TRANSACTION 'next')), '00000', '... and so can the next transaction');
	$session->get(q(COMMIT PREPARED 'next'));
}
is($other->get($state), $before, 'nothing of what was refused or undone has happened');
is($other->get('SELECT count(*) FROM pg_prepared_xacts'), '0', 'and nothing is left prepared');
is($other->get(q(SELECT count(*) FROM pg_locks WHERE locktype <> 'virtualxid' AND pid <> pg_backend_pid())), '0', 'nor locked');

# What only draws or reads may be prepared.
foreach my $call ('SELECT fencing.next_token()', 'SELECT fencing.fast_forward(0)', q(SELECT count(*) FROM fencing.lookup('held')))
{
	$session->get('BEGIN');
	$session->get($call);
	is($session->state_of(q(PREPARE TRANSACTION 'drawn')), '00000', "'$call' can be prepared");
	$session->get(q(ROLLBACK PREPARED 'drawn'));
}

# Prepared writes of a holder delay no successor; what they wrote is the successor's business only where it
# writes the same row.
foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $writer = $session->get(q(SELECT token FROM fencing.acquire('job', '1 hour', steal => 'always')));
	$session->get('BEGIN');
	$session->get("UPDATE account SET balance = balance + 1, fence_token = $writer WHERE id = 1");
	$session->get("SET LOCAL fencing.token = $writer");
	$session->get('UPDATE account SET balance = balance + 1 WHERE id = 2');
	is($session->state_of(q(PREPARE TRANSACTION 'writes')), '00000',
		'a transaction that has only written guarded rows can be prepared');

	my $next = $other->get(q(SELECT token FROM fencing.acquire('job', '1 hour', steal => 'always')), 30);
	cmp_ok($next || 0, '>', $writer, '... and the resource is granted at once to another one');
	is($other->get("SELECT fencing.release('job', $next)", 30), 't', '... and released');
	is($session->state_of("$end PREPARED 'writes'"), '00000', "$end PREPARED works");
}
is($other->get('SELECT string_agg(balance::text, \',\' ORDER BY id) FROM account'), '101,101',
	'the committed one has written, the other has not');

done_testing();
