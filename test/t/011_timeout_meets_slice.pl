# 011_timeout_meets_slice: a statement_timeout that comes due in the same instant as the end of a slice of a wait still
# ends the statement. The server reports the earlier of the two and forgets the other; a backend that is stopped while
# it waits for a lock finds both due when it goes on.
#
# Caught here: a wait that takes the end of its slice for the whole story.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION fencing');
my ($holder, $waiter, $watcher) = map { FencingSession->new($node) } 1 .. 3;

# Stops the waiter while it sleeps in a lock wait, where the end of its slice is always to come. False when it could
# not be stopped there before the time was over.
sub stopped_in_lock_wait
{
	my ($until) = @_;
	my $in_wait = q(SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = ) . $waiter->pid;
	while (time < $until)
	{
		kill 'STOP', $waiter->pid;
		until_true(sub { process_state($waiter->pid) eq 'T' }, 10) or die "it does not stop\n";
		return 1 if $watcher->get($in_wait) eq '1' && time < $until;
		kill 'CONT', $waiter->pid;
		sleep 0.02;
	}
	return 0;
}

$holder->get('BEGIN');
$holder->get(q(SELECT token FROM fencing.acquire('job', '1 hour')));
$waiter->get(q(SET statement_timeout = '3 s'));
my $met = 0;
foreach my $round (1 .. 10)
{
	my $due = time + 3;
	$waiter->send(q(SELECT * FROM fencing.acquire('job', wait => '8 s')));
	my $stopped = stopped_in_lock_wait($due - 0.5);
	sleep($due + 0.3 - time) if $due + 0.3 > time;
	kill 'CONT', $waiter->pid;
	$waiter->wait(60);
	is($waiter->sqlstate, '57014', "round $round: the statement is cancelled");
	last if $stopped && ++$met == 3;
}
is($met, 3, 'three times it was stopped in its wait');

$holder->get('ROLLBACK');
$waiter->get('RESET statement_timeout');
is($waiter->get(q(SELECT count(*) FROM fencing.acquire('job'))), '1', 'the resource is granted at once after that');

done_testing();
