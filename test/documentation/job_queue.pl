# docs/recipes/job_queue.py does what README.md says of it: real workers, one of which sleeps past its lease. They have
# no rights but those that the README names.
#
# Finds: a late result that is written over the successor's; a worker that does not notice that its lease is lost, or
# ends its successor's; a heartbeat that does not renew; a job that is worked on twice at a time.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Open3 qw(open3);
use POSIX qw(WNOHANG);
use PostgreSQL::Test::Utils;
use Test::More;

my $recipes = tree_root() . '/docs/recipes';
my $node = fencing_node('queue');
$node->start;
my $db = FencingSession->new($node);
$db->get('CREATE EXTENSION fencing');
# The table as the recipe says it.
my $schema = join "\n", slurp_file("$recipes/job_queue.py") =~ /^#   (\S.*;)$/mg;
like($schema, qr/CREATE TABLE job .*fencing\.protect.*INSERT/s, 'the recipe says which table it wants, and how a job comes into it');
$db->get($schema);
$db->get(q{INSERT INTO job SELECT n, 'payload ' || n, 'new', fencing.next_token() FROM generate_series(2, 6) AS n});
$db->get(<<'SQL');
CREATE ROLE worker LOGIN;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.renew, fencing.release TO worker;
GRANT SELECT, UPDATE ON job TO worker;
SQL

my @workers;

# A process of hold_job.py.
sub worker
{
	my ($job, $holder, $ttl, $manner) = @_;
	my $dsn = $node->connstr('postgres') . ' user=worker';
	my $process = open3(my $in, my $out, '>&STDERR', 'python3', tree_root() . '/test/documentation/hold_job.py',
		$recipes, $dsn, $job, $holder, $ttl, $manner);
	$in->autoflush(1);
	my $worker = { process => $process, in => $in, out => $out, text => '' };
	push @workers, $worker;
	return $worker;
}

# The next line that the worker prints; '' when none comes.
sub line_of
{
	my ($worker) = @_;
	until_true(
		sub {
			my $select = IO::Select->new($worker->{out});
			return 1 if $worker->{text} =~ /\n/;
			return 0 if !$select->can_read(0.05);
			return !sysread $worker->{out}, $worker->{text}, 4096, length $worker->{text};
		}, 60);
	return $worker->{text} =~ s/^([^\n]*)\n// ? $1 : '';
}

sub finish
{
	my ($worker) = @_;
	print { $worker->{in} } "finished\n";
	return;
}

sub row_of { return $db->get("SELECT state, fence_token FROM job WHERE id = $_[0]"); }
sub lease_of { return $db->get("SELECT token, holder FROM fencing.lookup('job:$_[0]')"); }

# This one waits for 10 seconds, while all of the rest goes on.
$db->get(q{SELECT fencing.acquire('job:6', '1 hour', 'somebody')});
my $busy = worker(6, 'w6', 30, 'obedient');

my $plain = worker(1, 'w1', 30, 'obedient');
is(line_of($plain), 'working on payload 1', 'a worker gets the payload of its job');
like(row_of(1), qr/^running\|\d+$/, 'and has claimed its row before');
finish($plain);
is(line_of($plain), 'done', 'and is done');
like(row_of(1), qr/^done\|\d+$/, 'its result is written');
like(lease_of(1), qr/^\d+\|$/, 'its lease is released');

is(line_of(worker(1, 'w2', 30, 'obedient')), 'done', 'a job that is done is not worked on again');

# The sleeper does not look at the event, and writes: refused.
my $sleeper = worker(2, 'sleeper', 2, 'stubborn');
is(line_of($sleeper), 'working on payload 2', 'the first worker of job 2 works');
kill 'STOP', $sleeper->{process};
my $successor = worker(2, 'successor', 60, 'obedient');
is(line_of($successor), 'working on payload 2', 'it is stopped for longer than its lease: a second one takes over');
my $claimed = row_of(2);
kill 'CONT', $sleeper->{process};
finish($sleeper);
is(line_of($sleeper), 'stale', 'the first one wakes up, writes its result, and is refused');
is(row_of(2), $claimed, 'its write has changed nothing');
like(lease_of(2), qr/\|successor$/, 'it has not ended the lease of its successor');
finish($successor);
is(line_of($successor), 'done', 'the second one is done');
is(row_of(2), $claimed =~ s/running/done/r, 'and its result stands');

# This one looks at the event.
my $obedient = worker(3, 'sleeper', 2, 'obedient');
is(line_of($obedient), 'working on payload 3', 'the first worker of job 3 works');
kill 'STOP', $obedient->{process};
$successor = worker(3, 'successor', 60, 'obedient');
is(line_of($successor), 'working on payload 3', 'it is stopped, and a second one takes over');
kill 'CONT', $obedient->{process};
is(line_of($obedient), 'stopped', 'the first one wakes up, learns from its heartbeat that the lease is lost, and stops');
finish($successor);
is(line_of($successor), 'done', 'the second one is done');

# The lease outlives its ttl as long as the worker does.
my $steady = worker(4, 'steady', 1, 'obedient');
is(line_of($steady), 'working on payload 4', 'a job that takes longer than the ttl of its lease');
ok( $db->get(q{SELECT acquired_at FROM fencing.lookup('job:4')}) && until_true(
		sub { $db->get(q{SELECT expires_at > acquired_at + '3 s' FROM fencing.lookup('job:4')}) eq 't' }, 60, 0.1),
	'the heartbeat renews');
is($db->get(q{SELECT token FROM fencing.acquire('job:4')}), '', 'nobody else gets it');
finish($steady);
is(line_of($steady), 'done', 'it is done');

# A worker that dies: the next one does the job after the ttl.
my $dying = worker(5, 'dying', 2, 'obedient');
is(line_of($dying), 'working on payload 5', 'a worker of job 5');
kill 'KILL', $dying->{process};
$successor = worker(5, 'successor', 60, 'obedient');
is(line_of($successor), 'working on payload 5', 'is killed, and a second one takes over');
finish($successor);
is(line_of($successor), 'done', 'and is done');

is(line_of($busy), 'busy', 'a job that somebody else holds is left alone');
like(row_of(6), qr/^new\|/, 'its row too');

done_testing();

END
{
	my $status = $?;
	foreach my $worker (@workers)
	{
		next if waitpid($worker->{process}, WNOHANG) != 0;    # has ended: the pid may be another's by now
		kill 'KILL', $worker->{process};
		waitpid $worker->{process}, 0;
	}
	$? = $status;
}
