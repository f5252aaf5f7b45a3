# 021_seal_deadlock: the one cycle that is left. A new holder that grants and works in one transaction waits for the row
# lock of a sleeper, whose COMMIT waits for that grant. The sleeper is the one that dies, with the server's own 40P01,
# and soon: the holder works on and commits. 20 rounds of 20, whoever has begun to wait first, for each kind of seal.
#
# deadlock_timeout is 20 s and seal_timeout 1 minute, so that a holder that goes on within a few seconds owes it to
# the seal's own look for deadlocks. The short timeouts of the seal must not stay behind in the session.
# Caught here: a seal that waits with the server's deadlock_timeout; one that looks for the deadlock once only, at the
# beginning of its wait; one that dies of its timeout instead; a timeout that an error does not put back.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $soon = 5;
my $rounds = 20;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', <<'CONF');
deadlock_timeout = 20s
fencing.seal_timeout = 1min
log_statement = none
autovacuum = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int);
INSERT INTO account VALUES (1, 0);
CREATE TABLE many (n int, fence_token bigint);
SELECT fencing.protect('many', 'fence_token', resource => 'many-{n}', issuer => 'external');
-- Resources of every bucket, so that a grant of one is in the way of a seal of many.
CREATE FUNCTION write_many(highest int, token bigint) RETURNS void LANGUAGE sql AS $$
	INSERT INTO many SELECT n, token FROM generate_series(1, highest) n
$$;
SELECT write_many(300, 10);
SQL

my ($sleeper, $holder, $watcher) = map { FencingSession->new($node) } 1 .. 3;

sub waits_for_lock
{
	my ($session) = @_;
	my $sql = q(SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = ) . $session->pid;
	return until_true(sub { $watcher->get($sql) eq '1' }, 30);
}

# What the sleeper claims, and the new holder's grant. Before a round the fences of elsewhere are at its number, which
# grows; a sleeper that claims more has to raise them.
my @kinds = (
	['one resource', sub { "SELECT fencing.bind('job', (SELECT token FROM fencing.lookup('job')))" },
		sub { q(SELECT token FROM fencing.acquire('job', '1 hour', steal => 'always')) }],
	['one resource, with a raise', sub { "SELECT fencing.bind('elsewhere', $_[0] + 2)" },
		sub { "SELECT fencing.advance('elsewhere', $_[0] + 1)" }],
	['many resources', sub { "SELECT write_many(300, $_[0])" },
		sub { "SELECT fencing.advance('many-7', $_[0] + 1)" }],
	['many resources, with a raise', sub { "SELECT write_many(300, $_[0] + 2)" },
		sub { "SELECT fencing.advance('many-7', $_[0] + 1)" }]);
$holder->get(q(SELECT fencing.acquire('job', '1 hour'); SELECT fencing.advance('elsewhere', 1)));
my $work = 'UPDATE account SET balance = balance + 1 WHERE id = 1';
my $token = 1000;

foreach my $kind (@kinds)
{
	my ($name, $claim, $grant) = @$kind;
	foreach my $first ('holder', 'sleeper')
	{
		my ($good, $longest, @bad) = (0, 0);
		foreach my $round (1 .. $rounds)
		{
			$holder->get("SELECT fencing.advance('elsewhere', $token), write_many(300, $token)") if $name ne 'one resource';
			$sleeper->get('BEGIN');
			$sleeper->get($claim->($token));
			$sleeper->get('UPDATE account SET balance = -1000 WHERE id = 1');
			$holder->get('BEGIN');
			$holder->get($grant->($token));

			# The second one to wait closes the cycle; long after the first has begun.
			my ($early, $late) = $first eq 'holder' ? ($holder, $sleeper) : ($sleeper, $holder);
			foreach my $session ($early, $late)
			{
				$session->send($session == $sleeper ? 'COMMIT' : $work);
				if ($session == $early) { waits_for_lock($session); sleep 0.1; }
			}
			my $closed = time;
			$holder->wait(90);
			my $waited = time - $closed;
			$sleeper->wait(90);
			my $ends = join ' ', $holder->sqlstate, $sleeper->sqlstate, $holder->state_of('COMMIT');
			if ($ends eq '00000 40P01 00000' && $waited < $soon) { $good++; }
			else { push @bad, sprintf('holder %s, sleeper %s, commit of the holder %s, after %.1f s', split(/ /, $ends), $waited); }
			$longest = $waited if $waited > $longest;
			$token += 10;
			last if @bad == 2;    # each may have taken a minute
		}
		is($good, $rounds, "$name, the $first waits first: the sleeper dies, the holder goes on and commits")
		  or diag(join "\n", @bad);
		cmp_ok($longest, '<', $soon, sprintf '... after %.2f s at most', $longest);
	}
}
is($watcher->get('SELECT balance > 0 FROM account'), 't', 'the holders have written, and no sleeper has');
foreach my $session ($sleeper, $holder)
{
	is($session->get('SHOW deadlock_timeout') . ' ' . $session->get('SHOW lock_timeout'), '20s 0', 'deadlock_timeout and lock_timeout are what they were');
}
is($watcher->get(q(SELECT count(*) FROM pg_locks WHERE locktype = 'object')), '0', 'no lock is left');

done_testing();
