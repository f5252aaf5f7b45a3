# torture.pl CHECKER SECONDS SEED: workers through the router while shards are killed and restarted. What each shard was
# asked, and has in the end, is judged by the checker of test/torture: a shard at a time, since each has its own tokens.
#
# Finds: a stale write that is accepted; a token that a shard hands out twice over a crash; a call that the router sends
# twice, or to another shard; what was acknowledged and is not there. That this would be seen: the last part.
use strict;
use warnings;

use FencingSession;
use FencingShards;
use FencingShardWorker;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime sleep);

my ($checker, $seconds, $seed) = @ARGV;
die "usage: torture.pl CHECKER SECONDS SEED\n" if !defined $seed;

# A worker that has ended in the middle must not hold others up for long. The shards flush what they acknowledge.
my $conf = "fsync = on\nlog_min_messages = fatal\nlog_min_error_statement = panic\nautovacuum = off\n";
my @shards = map { start_node("shard$_", $conf) } 0 .. 1;
my $router = start_node('router', $conf);
foreach my $shard (@shards)
{
	run_file($shard, 'test/torture/schema.sql', own => 8, outside => 0);
	run_file($shard, 'test/sharding/torture_shard.sql');
}
my %connect = map { +"shard$_" => $shards[$_]->connstr('postgres') } 0 .. 1;
run_file($router, 'docs/sharding/router.sql', %connect);
run_file($router, 'test/sharding/torture_router.sql');
my $watcher = FencingSession->new($router);
my %shard_of = map { $_ => $watcher->get("SELECT hashtext('$_') & 1") } map { "own-$_" } 1 .. 8;
$watcher->close;

# start_workers($folder, $count, $seconds): as processes; they end by themselves.
my @processes;
sub start_workers
{
	my ($folder, $count, $for) = @_;
	foreach my $id (1 .. $count)
	{
		my $process = fork // die "fork: $!";
		if ($process)
		{
			push @processes, $process;
			next;
		}
		# Of what this test holds nothing is the worker's to clean up.
		my $done = eval {
			my %options = (id => $id, seed => $seed, folder => $folder, shard_of => \%shard_of);
			FencingShardWorker->new($router, %options)->run($for);
			1;
		};
		warn "worker $id: $@" if !$done;
		POSIX::_exit($done ? 0 : 1);
	}
	return;
}

# How many have not ended well.
sub finish_workers
{
	my $bad = 0;
	while (my $process = shift @processes)
	{
		waitpid $process, 0;
		$bad++ if $? != 0;
	}
	return $bad;
}

# verdict($folder, $shard): the checker's report of that shard.
sub verdict
{
	my ($folder, $shard) = @_;
	my ($out, $report);
	my $begun = FencingShardWorker::now_ns();
	my $dump = tree_root() . '/test/torture/dump.sql';
	IPC::Run::run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $shards[$shard]->connstr('postgres'), '-f', $dump],
		'>', \$out) or die "could not dump\n";
	open my $file, '>', "$folder/dump$shard" or die "dump: $!";
	print $file "dump $begun @{[ FencingShardWorker::now_ns() ]} 00000001\n$out";
	close $file;
	my @resources = grep { $shard_of{$_} == $shard } keys %shard_of;
	# Rows of a resource that belongs elsewhere would be another shard's word; nobody may have written them.
	is($shards[$shard]->safe_psql('postgres', 'SELECT count(*) FROM log WHERE hashtext(resource) & 1 <> ' . $shard), 0,
		"shard $shard: no row of a resource that lives elsewhere");
	IPC::Run::run([$checker, '--dump', "$folder/dump$shard", glob "$folder/shard$shard-worker*"], '>', \$report,
		'2>&1');
	my $status = $? >> 8;
	die "the checker failed: $report\n" if $status > 1;
	return ($status == 0, $report);
}

# The longest way to say "a number of this": the checker's own counts.
sub counted
{
	my ($report, $what) = @_;
	return $report =~ /$what (\d+)/ ? $1 : 0;
}

my $folder = PostgreSQL::Test::Utils::tempdir();
start_workers($folder, 5, $seconds);
srand $seed;
my $end = clock_gettime(CLOCK_MONOTONIC) + $seconds - 3;
my $kills = 0;
while (clock_gettime(CLOCK_MONOTONIC) < $end)
{
	sleep(1 + rand 4);    # the workers are to get somewhere
	my $victim = $shards[rand @shards];
	crash_server($victim);
	sleep(rand 1);
	$victim->start;
	$kills++;
}
is(finish_workers(), 0, "every worker came to an end; shards killed: $kills");
cmp_ok($kills, '>', 0, 'a shard was killed');
foreach my $shard (0 .. 1)
{
	my ($clean, $report) = verdict($folder, $shard);
	ok($clean, "shard $shard, seed $seed: no violation") or diag($report);
	diag($report) if !$clean;
	note($report);
	cmp_ok(counted($report, 'committed'), '>', 0, "... transactions have committed");
	cmp_ok(counted($report, 'TK001'), '>', 0, '... and some were refused as stale');
}

# That the checker sees what it should: shard 0 loses its fence, and the line that binds.
my $body = $shards[0]->safe_psql('postgres', q(SELECT pg_get_functiondef('work'::regproc)));
$body =~ s/^\s*PERFORM fencing\.bind.*\n//m or die "work() does not bind\n";
$body =~ s/UPDATE state s SET seq = work\.seq/UPDATE state s SET token = work.token, seq = work.seq/ or die;
$shards[0]->safe_psql('postgres', "SELECT fencing.unprotect('state'), fencing.unprotect('log'); $body");
start_workers($folder, 5, $seconds < 10 ? $seconds : 10);
is(finish_workers(), 0, 'every worker came to an end, without fence on shard 0');
my ($clean, $report) = verdict($folder, 0);
like($report, qr/^violation of I5/m, 'shard 0 without its fence: the checker finds stale writes');
($clean) = verdict($folder, 1);
ok($clean, 'shard 1, which has it: no violation');

done_testing();

END
{
	my $status = $?;
	kill 'KILL', @processes;
	waitpid $_, 0 foreach @processes;
	$? = $status;
}
