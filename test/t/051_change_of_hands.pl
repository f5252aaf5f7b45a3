# 051_change_of_hands: who is told when a lease changes hands. The server's log has a line when somebody takes over a
# lease that still stands, and none for any other grant. With fencing.notify a COMMIT of a grant or a release tells
# whoever listens; a ROLLBACK, a call that changed nothing, and a session that has it off tell nobody.
#
# Caught here: a steal that nobody can see afterwards; a line for the successor of an expired lease; a NOTIFY that is
# sent although it is off, at the call instead of the COMMIT, or that is too long.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use Test::More;

my $node = fencing_node('main');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION fencing; CREATE ROLE thief LOGIN;
	GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.release TO thief');
my $worker = FencingSession->new($node);
my $thief = FencingSession->new($node, user => 'thief');

# The lines of the log about leases since the last call.
my $read = 0;
sub lines
{
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $read);
	$read = -s $node->logfile;
	return join '', map { "$_\n" } $log =~ /(?:LOG|DETAIL):  ((?:fencing: lease|Token \d+ of holder).*)/g;
}

sub acquire
{
	my ($session, $arguments) = @_;
	return $session->get("SELECT token FROM fencing.acquire($arguments)");
}

my $first = acquire($worker, q('job-1', '1 hour', 'worker 1'));
my $released = acquire($worker, q('job-2'));
$worker->get("SELECT fencing.release('job-2', $released)");
acquire($thief, q('job-2', '1 millisecond', 'b'));
ok(until_true(sub { $worker->get(q(SELECT expires_at < clock_timestamp() FROM fencing.lookup('job-2'))) eq 't' }), 'a lease expires');
acquire($thief, q('job-2', steal => 'always'));
acquire($thief, q('job-1'));
acquire($thief, q('job-1', holder => 'worker 2', steal => 'same_holder'));
is(lines(), '', 'a grant of what is free, released or expired is not logged, nor is one that is not given');

my $second = acquire($thief, q('job-1', '1 hour', steal => 'always'));
is(lines(), qq(fencing: lease of resource "job-1" taken over by "thief"
Token $first of holder "worker 1" is followed by token $second of holder without a label.\n), 'a steal is');
my $third = acquire($worker, q('job-1', '1 hour', 'worker 1', steal => 'always'));
my $fourth = acquire($worker, q('job-1', '1 hour', 'worker 1', steal => 'same_holder'));
like(lines(), qr/Token $second of holder without.*token $third of.*Token $third of holder "worker 1".*token $fourth of holder "worker 1"\.$/s,
	'... from whom, and with steal => same_holder');
is($thief->errors, '', 'the client is told nothing of it');

# NOTIFY.
my $listener = FencingSession->new($node);
$listener->get('LISTEN fencing');
# What has come since the last call; a mark of our own ends it.
my $marks = 0;
sub heard
{
	my $mark = 'mark-' . ++$marks;
	$worker->get("NOTIFY fencing, '$mark'");
	my $text = '';
	until_true(sub { $text .= $listener->get('SELECT') . "\n"; $text =~ /$mark/ }) or die "the mark did not come\n";
	return join "\n", grep { $_ ne $mark } $text =~ /with payload "(.*)" received/g;
}

my $quiet = acquire($worker, q('job-3'));
$worker->get("SELECT fencing.release('job-3', $quiet)");
is(heard(), '', 'off: nothing is sent');
$worker->get('SET fencing.notify = on');
my $granted = acquire($worker, q('job 3'));
is(heard(), "granted $granted job 3", 'on: a grant is');
is(acquire($worker, q('job 3')), '', 'a second one');
$worker->get(q(SELECT fencing.release('job 3', 1)));
$worker->get("SELECT fencing.renew('job 3', $granted)");
is(heard(), '', '... which is not given sends nothing, nor does a release of nothing, nor a renewal');
$worker->get("SELECT fencing.release('job 3', $granted)");
is(heard(), "released $granted job 3", 'a release is sent');
is(acquire($thief, q('job 3')) > 0, 1, 'a session that has it off');
is(heard(), '', '... sends nothing');
$worker->get('BEGIN');
acquire($worker, q('job-4'));
$worker->get('ROLLBACK');
is(heard(), '', 'a ROLLBACK sends nothing');
$worker->get('BEGIN');
$granted = acquire($worker, q('job-4'));
$thief->get('NOTIFY fencing, $$meanwhile$$' =~ s/\$\$/'/gr);
my $early = '';
ok(until_true(sub { $early .= $listener->get('SELECT'); $early =~ /meanwhile/ }), 'before the COMMIT');
unlike($early, qr/job-4/, '... nobody hears of it');
$worker->get('COMMIT');
is(heard(), "granted $granted job-4", '... then they do');
my $long = 'x' x 512;
$granted = acquire($worker, qq('$long', holder => repeat('h', 100000)));
is(heard(), "granted $granted $long", 'the longest resource, and a long holder');

done_testing();
