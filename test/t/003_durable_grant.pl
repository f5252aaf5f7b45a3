# 003_durable_grant: I3, the fence never goes down, by a crash either. A committed grant or advance is still there
# after kill -9 of the whole server, also with synchronous_commit off, at whatever point of the transaction that
# was turned off; so is the fence of a released resource. fencing.durable_grants = off waives it: there a loss has
# to show (a test that cannot fail is worth nothing), and even then no token comes twice.
#
# Caught here: a commit of a grant or advance that does not wait for its WAL; a wait that depends on the value of
# synchronous_commit when the function ran, or is forgotten when a savepoint ends; durable_grants without effect.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', own_flush_conf() . <<'CONF');
shared_buffers = 16MB
log_statement = none
synchronous_commit = off
CONF
$node->start;
$node->safe_psql('postgres', 'SET synchronous_commit = on; CREATE EXTENSION fencing; CREATE TABLE plain (round int)');

my $highest = 0;

sub fence_of
{
	my ($resource) = @_;
	return $node->safe_psql('postgres', "SELECT token FROM fencing.lookup('$resource')");
}

# Run the statements in a session of their own, then crash. The last number that came back.
sub run_and_crash
{
	my @statements = @_;
	my $session = FencingSession->new($node);
	my $number;
	foreach my $statement (@statements)
	{
		my $answer = $session->get($statement);
		$number = $answer if $answer =~ /^\d+$/;
	}
	crash_server($node);
	$node->start;
	return $number;
}

sub nothing_repeats
{
	my ($seen, $name) = @_;
	$highest = $seen if $seen > $highest;
	my $next = $node->safe_psql('postgres', 'SELECT fencing.next_token()');
	cmp_ok($next, '>', $highest, $name);
	$highest = $next;
	return;
}

# Twenty grants, each in another shape of transaction. A plain row committed the same way is lost.
my @shapes = (
	[q(%s)],
	['BEGIN', q(%s), 'COMMIT'],
	['BEGIN', 'SAVEPOINT s', q(%s), 'RELEASE s', 'COMMIT'],
	['SET synchronous_commit = on', 'BEGIN', q(%s), 'SET LOCAL synchronous_commit = off', 'COMMIT'],
	['BEGIN', q(%s), 'SAVEPOINT s', q(SELECT FROM fencing.acquire('undone')), 'ROLLBACK TO s', 'COMMIT']);
my $plain_lost = 0;
foreach my $round (1 .. 20)
{
	my $resource = "granted-$round";
	my @shape = map { sprintf $_, "SELECT token FROM fencing.acquire('$resource', '1 hour')" } @{ $shapes[$round % @shapes] };
	my $token = run_and_crash(@shape);
	is(fence_of($resource), $token, "round $round: the grant survives (@{ $shapes[$round % @shapes] })");
	$highest = $token if $token > $highest;
	run_and_crash("INSERT INTO plain VALUES ($round)") if $round <= 3;
	$plain_lost++ if $round <= 3 && !$node->safe_psql('postgres', "SELECT count(*) FROM plain WHERE round = $round");
}
cmp_ok($plain_lost, '>=', 1, "a plain row committed with synchronous_commit off is lost ($plain_lost of 3)");
is($node->safe_psql('postgres', q(SELECT count(*) FROM fencing.acquire('granted-1'))), '0',
	'the lease is still held after the crash, not only its fence');

# The fence of an advance, the first and a later one of each resource.
foreach my $round (1 .. 10)
{
	my $resource = 'external-' . int(($round + 1) / 2);
	my $token = 1000 + $round;
	my @shape = map { sprintf $_, "SELECT fencing.advance('$resource', $token)" } @{ $shapes[$round % @shapes] };
	run_and_crash(@shape);
	is(fence_of($resource), $token, "round $round: the advance survives");
	is(FencingSession->new($node)->state_of("SELECT fencing.advance('$resource', $token - 1)"), 'TK001',
		'... and a lower one is stale');
}

# A steal is a grant too, and a release takes nothing back.
{
	my $token = run_and_crash(q(SELECT token FROM fencing.acquire('granted-2', steal => 'always')));
	is(fence_of('granted-2'), $token, 'a stolen lease survives');
	$token = run_and_crash(q(SELECT token FROM fencing.acquire('released', '1 hour')),
		q(SELECT fencing.release('released', (SELECT token FROM fencing.lookup('released')))));
	is(fence_of('released'), $token, 'the fence of a released resource survives');
	my $next = run_and_crash('SET synchronous_commit = on',
		q(SELECT fencing.release('released', (SELECT token FROM fencing.lookup('released')))),
		q(SELECT token FROM fencing.acquire('released', '1 hour')));
	cmp_ok($next, '>', $token, 'and the next grant is greater');
	nothing_repeats($next, 'no token comes twice after all these crashes');
}

# An equal advance raises nothing, but what it confirms must be durable: the fence may stand by a write whose COMMIT has
# not waited.
$node->safe_psql('postgres', 'SET synchronous_commit = on; CREATE TABLE sight (fence_token bigint); '
	  . q(SELECT fencing.protect('sight', 'fence_token', 'sight', issuer => 'external')));
foreach my $round (1 .. 3)
{
	run_and_crash("INSERT INTO sight VALUES (10 * $round)", "SELECT fencing.advance('sight', 10 * $round)");
	is(fence_of('sight'), 10 * $round, "round $round: a fence raised by sight survives once an advance has confirmed it");
}

# Waived: a crash takes grants back, and with them the refusal of the tokens before; never the numbers.
my ($grants_lost, $advances_lost) = (0, 0);
foreach my $round (1 .. 4)
{
	my $before = $node->safe_psql('postgres',
		"SET synchronous_commit = on; SELECT token FROM fencing.acquire('waived', '1 hour', steal => 'always')");
	my $token = run_and_crash('SET fencing.durable_grants = off',
		q(SELECT token FROM fencing.acquire('waived', '1 hour', steal => 'always')));
	my $after = fence_of('waived');
	$grants_lost++ if $after != $token;
	ok($after == $token || $after == $before, "waived, round $round: the fence is the lost grant's, or the one before");
	nothing_repeats($token, '... and the lost token does not come again');
	cmp_ok($node->safe_psql('postgres', "SELECT token FROM fencing.acquire('waived', '1 hour', steal => 'always')"), '>',
		$token, '... nor for its resource');

	run_and_crash('SET fencing.durable_grants = off', "SELECT fencing.advance('external-1', 2000 + $round)");
	$advances_lost++ if fence_of('external-1') != 2000 + $round;
}
cmp_ok($grants_lost, '>=', 1, "with durable_grants off a crash takes back a grant ($grants_lost of 4)");
cmp_ok($advances_lost, '>=', 1, "... and an advance ($advances_lost of 4)");

done_testing();
