# 043_wake_up: who waits in acquire for the end of a lease is woken by whoever ends it, by release or forget, at his COMMIT; and the
# next in the queue after him.
#
# Runs against a library that looks by itself once an hour: nobody finds out who is not woken. Caught here: a wake-up that
# is not sent; one that wakes the waiters of another resource, or comes before the change can be seen.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $build = build_conf($ENV{PG_CONFIG} || 'pg_config', 'EXTRA_CPPFLAGS=-DFENCING_LOOK_EVERY_MS=3600000', 'EXTRA_CXXFLAGS=-O1 -g0');
my $node = fencing_node('waiting');
$node->append_conf('postgresql.conf', $build . preload_conf($build) . "log_statement = none\n");
$node->start;
my $admin = FencingSession->new($node);
$admin->get('CREATE EXTENSION fencing');

# A session that waits for the resource, and sleeps.
sub waiter
{
	my ($resource) = @_;
	my $session = FencingSession->new($node);
	$session->send("SELECT token FROM fencing.acquire('$resource', '1 hour', wait => '1 minute')");
	sleeps($session) or die "nobody waits for $resource\n";
	return $session;
}

sub sleeps
{
	my ($session) = @_;
	return $node->poll_query_until('postgres', 'SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $session->pid, 'Extension');
}

# A third of the time that it waits at most. Who is not woken once would be waited for in each of the cases that follow.
sub is_granted
{
	my ($session, $above, $name) = @_;
	if (!ok($session->answered(20), $name))
	{
		$node->stop('immediate');
		exit 1;
	}
	cmp_ok($session->answer, '>', $above, '... and has the next token');
	return;
}

# ---- a release, and the next one behind it

my $holder = FencingSession->new($node);
my $token = $holder->get(q(SELECT token FROM fencing.acquire('job-1', '1 hour')));
my $first = waiter('job-1');
my $second = FencingSession->new($node);
$second->send(q(SELECT token FROM fencing.acquire('job-1', '1 hour', wait => '1 minute')));
$node->poll_query_until('postgres', 'SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $second->pid, 'Lock')
  or die "nobody queues\n";
$holder->get(q(SELECT fencing.acquire('job-1-of-others', '1 hour')));
my $elsewhere = waiter('job-1-of-others');
$holder->get("SELECT fencing.release('job-1', $token)");
is_granted($first, $token, 'a release wakes who waits');
my $next = $first->answer;
sleeps($second);
$first->get("SELECT fencing.release('job-1', $next)");
is_granted($second, $next, 'the next release wakes the next in the queue');
ok(!$elsewhere->answered(0.01), 'who waits for another resource waits on');
$elsewhere->cancel($admin);
is($elsewhere->sqlstate, '57014', '... until it is cancelled');

# ---- a fence that goes

$token = $holder->get(q(SELECT token FROM fencing.acquire('job-3', '1 hour')));
my $waiter = waiter('job-3');
$admin->get(q(SELECT fencing.forget('job-3')));
is_granted($waiter, $token, 'forget wakes who waits');

# ---- a release that is not committed at once

$token = $holder->get(q(SELECT token FROM fencing.acquire('job-4', '1 hour')));
$waiter = waiter('job-4');
$holder->get($_) foreach 'BEGIN', "SELECT fencing.release('job-4', $token)";
ok(!$waiter->answered(0.2), 'a release that may be rolled back wakes nobody');
$holder->get('COMMIT');
is_granted($waiter, $token, '... its COMMIT does');

done_testing();
